"""Precedence, provenance, masking, and errors that name every way to set a value."""

import os
from pathlib import Path

import pytest

from acker_cli.errors import SettingsError
from acker_cli.settings import LoadedSettings
from acker_cli.settings.layers import MASK, SERVERS, file_key, is_secret, load, variable
from spout_sdk.runtime.supervisor import Launch


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings file, which does not exist yet, in a directory and an environment without settings."""
    for name in [*os.environ]:
        if name.upper().startswith("ACKER_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "acker.toml"


def origin(loaded: LoadedSettings, name: str) -> str:
    return next(origin for known, _, origin in loaded.rows() if known == name)


def refused(*assignments: str, config: Path | None = None) -> str:
    """The error, which is one line."""
    with pytest.raises(SettingsError) as raised:
        load(config, assignments=assignments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_flag_environment_file_and_default_have_this_precedence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "worker.log_interval_s"

    def seen(*assignments: str) -> tuple[float, str]:
        loaded = load(assignments=[*assignments])
        return loaded.settings.worker.log_interval_s, origin(loaded, name)

    assert load().settings.is_embedded
    assert {origin for _, _, origin in load().rows()} == {"default"}
    assert seen() == (10.0, "default")
    file.write_text("[worker]\nlog_interval_s = 2\n")
    assert seen() == (2.0, f"file {file}")
    monkeypatch.setenv("ACKER_WORKER__LOG_INTERVAL_S", "3")
    assert seen() == (3.0, "environment ACKER_WORKER__LOG_INTERVAL_S")
    assert seen(f"{name}=4") == (4.0, "flag --set")


def test_layers_are_merged_value_by_value(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('[kafka]\n"client.id" = "file"\n[local_kafka]\nproperties = { "num.io.threads" = "2" }\n')
    # The one property of librdkafka with an underscore keeps it.
    for name, value in {
        "ACKER_KAFKA__CLIENT_ID": "environment",
        "ACKER_KAFKA__LOG_LEVEL": "3",
        "ACKER_LOCAL_KAFKA__PROPERTIES__NUM_NETWORK_THREADS": "3",
    }.items():
        monkeypatch.setenv(name, value)
    loaded = load(bootstrap_servers="flag:1", assignments=["local_kafka.properties.background.threads=4"])
    assert origin(loaded, SERVERS) == "flag --bootstrap-servers"
    assert loaded.settings.kafka == {"bootstrap.servers": "flag:1", "client.id": "environment", "log_level": "3"}
    threads = {"num.io.threads": "2", "num.network.threads": "3", "background.threads": "4"}
    assert loaded.settings.local_kafka.properties == threads


@pytest.mark.parametrize(
    "toml",
    [
        '[kafka]\n"sasl.mechanism" = "PLAIN"\n',
        '[kafka]\nsasl.mechanism = "PLAIN"\n',
        '[kafka.sasl]\nmechanism = "PLAIN"\n',
        '[kafka]\nsasl_mechanism = "PLAIN"\n',
    ],
)
def test_a_kafka_property_can_be_set_in_every_toml_form(file: Path, toml: str) -> None:
    file.write_text(toml)
    assert load().settings.kafka == {"sasl.mechanism": "PLAIN"}


def test_a_section_may_be_json_in_one_variable_and_an_empty_variable_is_not_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACKER_KAFKA__BOOTSTRAP_SERVERS", "")
    assert load().settings.is_embedded
    monkeypatch.setenv("ACKER_KAFKA", '{"bootstrap.servers": "json:1"}')
    assert origin(load(), SERVERS) == "environment ACKER_KAFKA"
    monkeypatch.setenv("ACKER_WORKER", "often")
    assert "holds JSON" in refused()


def test_the_settings_file_can_be_chosen(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.toml"
    other.write_text('log_level = "debug"\n')
    file.write_text('log_level = "error"\n')
    by_flag = load(config=other)
    monkeypatch.setenv("ACKER_CONFIG", str(other))
    assert [(each.settings.log_level, each.config_file) for each in (by_flag, load())] == [("debug", other)] * 2


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("kafka.sasl.password kafka.ssl.key.password kafka.ssl.key.pem dashboard.token kafka.sasl.jaas.config", True),
        ("kafka.sasl.oauthbearer.client.secret kafka.sasl.oauthbearer.config", True),
        ("local_kafka.properties.ssl.keystore.key", True),
        ("local_kafka.properties.listener.name.secured.scram-sha-512.sasl.jaas.config", True),
        ("kafka.sasl.username kafka.ssl.ca.location kafka.bootstrap.servers kafka.ssl.key.location", False),
    ],
)
def test_names_of_secrets(names: str, expected: bool) -> None:
    for name in names.split():
        assert is_secret(name) is expected, name


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_KAFKA__SASL_PASSWORD", "hush")
    loaded = load()
    assert ("kafka.sasl.password", MASK, "environment ACKER_KAFKA__SASL_PASSWORD") in loaded.rows()
    kafka = loaded.settings.kafka
    assert kafka["sasl.password"] == "hush"
    # Nor are they in a traceback with values, or in a log line that holds one of these objects.
    for holder in (loaded.rows(), loaded, Launch(kafka, {})):
        assert "hush" not in repr(holder)


def test_errors_do_not_repeat_a_secret(file: Path) -> None:
    """Neither does its cause, which `--traceback` prints."""
    for written in ('[kafk]\n"sasl.password" = "hush"\n', '[kafka]\nsasl_password = ["hush"]\n'):
        file.write_text(written)
        with pytest.raises(SettingsError) as raised:
            load()
        assert "hush" not in f"{raised.value} {raised.value.__cause__}"
    assert "kafka.sasl.password" in str(raised.value)
    file.unlink()
    # Everybody on the machine can read a command line.
    for written in ("kafka.sasl.password", "kafka.sasl_password", "kafka.ssl.key.pem"):
        error = refused(f"{written}=hush")
        assert "hush" not in error
        assert "set it with ACKER_KAFKA__S" in error


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("worker.log_interval_s=soon", "'soon'"),
        ("worker.commit_interval_s=0", "greater than 0"),
        ("local_kafka.port=70000", "less than or equal to 65535"),
        ("metrics.port=-1", "greater than or equal to 0"),
        ("log_level=loud", "'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_flag_variable_and_key(assignment: str, message: str) -> None:
    name = assignment.partition("=")[0]
    error = refused(assignment)
    for part in (message, f"--set {name}=", variable(name), file_key(name), "acker.toml", "flag --set"):
        assert part in error


def test_an_unknown_setting_has_a_suggestion(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for toml, message in {
        "[kakfa]\nx = 1\n": "did you mean kafka?",
        "[worker]\nlog_intervall_s = 1\n": "did you mean worker.log_interval_s?",
        "loglevel = 'info'\n": "did you mean log_level?",
        "zzz = 1\n": "take it out",
    }.items():
        file.write_text(toml)
        for part in ("unknown setting", message, str(file)):
            assert part in refused(), toml
    file.write_text("worker = \n")
    assert "is not TOML: Invalid value" in refused()
    file.unlink()
    assert "no file missing.toml, which --config names" in refused(config=Path("missing.toml"))
    assert "NAME=VALUE" in refused("worker.log_interval_s")
    monkeypatch.setenv("ACKER_WORKER__LOG_INTERVAL", "1")
    assert "ACKER_WORKER__LOG_INTERVAL): did you mean worker.log_interval_s" in refused()


def test_an_instance_may_have_the_name_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-7")
    assert load().settings.instance_name is None
    for given, name in {"parse-1": "parse-1", "{hostname}": "node-7", "{hostname}-2": "node-7-2"}.items():
        monkeypatch.setenv("ACKER_INSTANCE", given)
        assert load().settings.instance_name == name
    for wrong in ("parse 1", "{machine}"):  # Kafka refuses it, or two machines would have it
        monkeypatch.setenv("ACKER_INSTANCE", wrong)
        assert "ACKER_INSTANCE" in refused()
