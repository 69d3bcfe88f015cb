"""Precedence, provenance, masking, and errors that name every way to set a value."""

from pathlib import Path

import pytest

from acker_cli import setting_names as names
from acker_cli.acker_process import AckerLaunch
from acker_cli.cluster import Cluster
from acker_cli.errors import SettingsError
from acker_cli.masking import MASK, is_secret
from acker_cli.setting_layers import Flags, LoadedSettings, load
from spout_sdk.launch import Launch


@pytest.fixture(autouse=True)
def clean_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory and an environment without settings."""
    import os

    for variable in list(os.environ):
        if variable.upper().startswith("ACKER_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def origin(loaded: LoadedSettings, name: str) -> str:
    return next(origin for known, _, origin in loaded.rows() if known == name)


def test_everything_has_a_default() -> None:
    loaded = load(Flags())
    assert loaded.settings.is_embedded
    assert loaded.settings.worker.log_interval_s == 10.0
    assert {origin for _, _, origin in loaded.rows()} == {"default"}


def test_a_flag_goes_before_the_environment_before_the_file_before_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "acker.toml"
    name = "worker.log_interval_s"
    seen = [(load(Flags()).settings.worker.log_interval_s, origin(load(Flags()), name))]
    file.write_text("[worker]\nlog_interval_s = 2\n")
    seen.append((load(Flags()).settings.worker.log_interval_s, origin(load(Flags()), name)))
    monkeypatch.setenv("ACKER_WORKER__LOG_INTERVAL_S", "3")
    seen.append((load(Flags()).settings.worker.log_interval_s, origin(load(Flags()), name)))
    flags = Flags(assignments=[f"{name}=4"])
    seen.append((load(flags).settings.worker.log_interval_s, origin(load(flags), name)))
    assert seen == [
        (10.0, "default"),
        (2.0, f"file {file}"),
        (3.0, "environment ACKER_WORKER__LOG_INTERVAL_S"),
        (4.0, "flag --set"),
    ]


def test_layers_are_merged_value_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acker.toml").write_text('[kafka]\nbootstrap_servers = "file:1"\n"client.id" = "file"\n')
    monkeypatch.setenv("ACKER_KAFKA__CLIENT_ID", "environment")
    monkeypatch.setenv("ACKER_KAFKA__SASL_MECHANISM", "PLAIN")
    loaded = load(Flags(bootstrap_servers="flag:1"))
    assert loaded.settings.kafka == {
        "bootstrap.servers": "flag:1",
        "client.id": "environment",
        "sasl.mechanism": "PLAIN",
    }
    assert origin(loaded, names.SERVERS) == "flag --bootstrap-servers"


@pytest.mark.parametrize(
    "toml",
    [
        '[kafka]\n"sasl.mechanism" = "PLAIN"\n',
        '[kafka]\nsasl.mechanism = "PLAIN"\n',
        '[kafka.sasl]\nmechanism = "PLAIN"\n',
        '[kafka]\nsasl_mechanism = "PLAIN"\n',
    ],
)
def test_a_kafka_property_may_be_written_in_each_way_that_toml_has(tmp_path: Path, toml: str) -> None:
    (tmp_path / "acker.toml").write_text(toml)
    assert load(Flags()).settings.kafka == {"sasl.mechanism": "PLAIN"}


def test_the_one_property_with_an_underscore_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_KAFKA__LOG_LEVEL", "3")
    assert load(Flags()).settings.kafka == {"log_level": "3"}


def test_broker_properties_take_dots_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acker.toml").write_text('[local_kafka]\nproperties = { "num.io.threads" = "2" }\n')
    monkeypatch.setenv("ACKER_LOCAL_KAFKA__PROPERTIES__NUM_NETWORK_THREADS", "3")
    loaded = load(Flags(assignments=["local_kafka.properties.background.threads=4"]))
    assert loaded.settings.local_kafka.properties == {
        "num.io.threads": "2",
        "num.network.threads": "3",
        "background.threads": "4",
    }


def test_a_section_may_come_as_json_in_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_KAFKA", '{"bootstrap.servers": "json:1"}')
    loaded = load(Flags())
    assert loaded.settings.bootstrap_servers == "json:1"
    assert origin(loaded, names.SERVERS) == "environment ACKER_KAFKA"


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_KAFKA__BOOTSTRAP_SERVERS", "")
    assert load(Flags()).settings.is_embedded


@pytest.mark.parametrize("by_variable", [True, False])
def test_the_file_may_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool) -> None:
    file = tmp_path / "other.toml"
    file.write_text('log_level = "debug"\n')
    (tmp_path / "acker.toml").write_text('log_level = "error"\n')
    if by_variable:
        monkeypatch.setenv("ACKER_CONFIG", str(file))
    loaded = load(Flags(config=None if by_variable else file))
    assert loaded.settings.log_level == "debug"
    assert loaded.config_file == file


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.password",
        "kafka.ssl.key.password",
        "kafka.ssl.keystore.password",
        "kafka.ssl.key.pem",
        "kafka.sasl.oauthbearer.client.secret",
        "kafka.sasl.oauthbearer.config",
        "kafka.sasl.jaas.config",
        "dashboard.token",
        "local_kafka.properties.ssl.truststore.password",
        "local_kafka.properties.ssl.keystore.key",
        "local_kafka.properties.listener.name.secured.scram-sha-512.sasl.jaas.config",
    ],
)
def test_secrets_are_masked(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["kafka.sasl.username", "kafka.ssl.ca.location", "kafka.bootstrap.servers", "kafka.ssl.key.location"]
)
def test_what_is_no_secret_is_shown(name: str) -> None:
    assert not is_secret(name)


def test_rows_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_KAFKA__SASL_PASSWORD", "hush")
    rows = load(Flags()).rows()
    assert ("kafka.sasl.password", MASK, "environment ACKER_KAFKA__SASL_PASSWORD") in rows
    assert "hush" not in str(rows)


def test_a_secret_in_the_wrong_place_is_not_shown(tmp_path: Path) -> None:
    """Nor in the error that caused ours, which `--traceback` prints."""
    for written in ('[kafk]\n"sasl.password" = "hush"\n', '[kafka]\nsasl_password = ["hush"]\n'):
        (tmp_path / "acker.toml").write_text(written)
        with pytest.raises(SettingsError) as refused:
            load(Flags(config=tmp_path / "acker.toml"))
        assert "hush" not in f"{refused.value} {refused.value.__cause__}"


def test_what_holds_settings_does_not_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a traceback with values, or a line that somebody logs to find an error."""
    monkeypatch.setenv("ACKER_KAFKA__SASL_PASSWORD", "hush")
    loaded = load(Flags())
    kafka = loaded.settings.kafka
    assert kafka["sasl.password"] == "hush"
    for holder in (
        loaded,
        Cluster(kafka, is_embedded=False),
        Launch(kafka, 3),
        AckerLaunch("words", kafka, {}, "info"),
    ):
        assert "hush" not in repr(holder)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("worker.log_interval_s=soon", ["'soon'", "flag --set", "valid number"]),
        ("worker.commit_interval_s=0", ["greater than 0"]),
        ("local_kafka.port=70000", ["less than or equal to 65535"]),
        ("metrics.port=-1", ["greater than or equal to 0"]),
        ("metrics.stuck_after_s=0", ["greater than or equal to 1"]),
        ("log_level=loud", ["'debug', 'info', 'warning' or 'error'"]),
    ],
)
def test_a_wrong_value_is_one_line_that_names_flag_variable_and_key(assignment: str, said: list[str]) -> None:
    name = assignment.partition("=")[0]
    with pytest.raises(SettingsError) as raised:
        load(Flags(assignments=[assignment]))
    message = str(raised.value)
    assert "\n" not in message
    for part in [*said, f"--set {name}=", names.variable(name), names.file_key(name), "acker.toml"]:
        assert part in message


def test_a_wrong_secret_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "acker.toml").write_text('[kafka]\n"sasl.password" = ["hush"]\n')
    with pytest.raises(SettingsError) as raised:
        load(Flags())
    assert "hush" not in str(raised.value)
    assert "kafka.sasl.password" in str(raised.value)


@pytest.mark.parametrize("written", ["kafka.sasl.password", "kafka.sasl_password", "kafka.ssl.key.pem"])
def test_a_secret_is_not_taken_from_a_command_line_that_everybody_reads(written: str) -> None:
    with pytest.raises(SettingsError, match=r"set it with ACKER_KAFKA__S.*in acker\.toml") as raised:
        load(Flags(assignments=[f"{written}=hush"]))
    assert "hush" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[kakfa]\nx = 1\n", "did you mean kafka?"),
        ("[worker]\nlog_intervall_s = 1\n", "did you mean worker.log_interval_s?"),
        ("loglevel = 'info'\n", "did you mean log_level?"),
        ("zzz = 1\n", "take it out"),
    ],
)
def test_an_unknown_key_gets_a_hint(tmp_path: Path, toml: str, said: str) -> None:
    (tmp_path / "acker.toml").write_text(toml)
    with pytest.raises(SettingsError, match="unknown setting") as raised:
        load(Flags())
    assert said in str(raised.value)
    assert str(tmp_path / "acker.toml") in str(raised.value)


def test_an_unknown_variable_of_a_section_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_WORKER__LOG_INTERVAL", "1")
    with pytest.raises(SettingsError, match=r"ACKER_WORKER__LOG_INTERVAL\): did you mean worker.log_interval_s"):
        load(Flags())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (Flags(config=Path("missing.toml")), "no file missing.toml, which --config names"),
        (Flags(assignments=["worker.log_interval_s"]), "NAME=VALUE"),
    ],
)
def test_flags_that_cannot_be_followed(flags: Flags, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(flags)


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    (tmp_path / "acker.toml").write_text("worker = \n")
    with pytest.raises(SettingsError, match="is not TOML: Invalid value"):
        load(Flags())


def test_a_section_that_is_not_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_WORKER", "often")
    with pytest.raises(SettingsError, match="holds JSON"):
        load(Flags())


@pytest.mark.parametrize(
    "name", [*names.known_names(), "kafka.sasl.mechanism", "local_kafka.properties.num.io.threads"]
)
def test_every_name_survives_nesting_and_flattening(name: str) -> None:
    assert names.flatten(names.nest({name: 1})) == {name: 1}
    assert names.variable(name).startswith("ACKER_")
