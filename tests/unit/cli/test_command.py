"""The command line itself: help, errors, exit codes, and that it starts quickly."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from acker_cli.app import explain
from acker_worker.errors import TopicError
from tests.unit.cli.running import Acker, Run, run_acker


@pytest.fixture
def acker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Acker:
    """Runs `acker` in a directory of its own, without settings."""
    import os

    for variable in list(os.environ):
        if variable.upper().startswith("ACKER_"):
            monkeypatch.delenv(variable)

    def run(*arguments: str) -> Run:
        return run_acker(*arguments, cwd=tmp_path, seconds=60)

    return run


def one_line(run: Run, code: int = 1) -> str:
    """The one line of an error."""
    assert run.returncode == code, run.stderr
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1, run.stderr
    assert run.stderr.startswith("acker: ")
    return run.stderr


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ([], "acker run my_module:topology --local"),
        (["demo"], "acker demo --fail-rate 0.02 --kill"),
        (["run"], "acker run my_module:topology --component split"),
        (["worker"], "acker worker --topology word-count"),
        (["topologies", "list"], "acker topologies list --json"),
        (["topologies", "show"], "acker topologies show word-count"),
        (["topologies", "delete"], "acker topologies delete word-count --yes"),
        (["trace"], "acker trace --oldest 1"),
        (["doctor"], "acker doctor word-count --strict --json"),
        (["dead-letters", "list"], "acker dead-letters list word-count --json"),
        (["dead-letters", "show"], "acker dead-letters show word-count 17"),
        (["dead-letters", "replay"], "acker dead-letters replay word-count --offset 17"),
        (["otel"], "acker trace --last-failed 20 --json | acker otel"),
        (["topics", "create"], "acker topics create my_module:topology"),
        (["topics", "show"], "acker topics show my_module:topology --json"),
        (["topics", "acls"], "acker topics acls my_module:topology --role split"),
        (["kafka"], "acker kafka --port 9092"),
        (["spark", "submit"], "acker spark submit my_module:topology --component lines"),
        (["dashboard"], "acker dashboard --topology word-count --open"),
        (["config", "show"], "acker config show"),
    ],
)
def test_every_help_text_has_examples(acker: Acker, command: list[str], example: str) -> None:
    run = acker(*command, "--help")
    assert run.returncode == 0
    assert "Examples" in run.stdout
    assert f"$ {example}" in run.stdout


def test_an_extra_in_a_help_text_keeps_its_brackets(acker: Acker) -> None:
    """They are markup of the terminal else, and nothing of them is left."""
    assert "kafka-acker[otel]" in acker("otel", "--help").stdout


@pytest.mark.parametrize("command", [[], ["topics"], ["topologies"], ["dead-letters"], ["config"]])
def test_without_more_there_is_help(acker: Acker, command: list[str]) -> None:
    run = acker(*command)
    assert run.returncode == 0
    assert "Usage" in run.stdout
    assert run.stderr == ""


def test_help_does_not_load_what_only_commands_need(acker: Acker, tmp_path: Path) -> None:
    heavy = ["numba", "pyspark", "confluent_kafka", "pydantic", "fastavro", "spout_sdk", "acker_worker", "local_kafka"]
    script = (
        "import sys\nfrom acker_cli.app import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n"
        f"    print([name for name in {heavy} if name in sys.modules], file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"


def test_ctrl_c_while_the_commands_are_imported() -> None:
    """Nobody is there yet who could unwind anything, and there is nothing to be unwound."""
    script = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'acker_cli.app': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from acker_cli.__main__ import main\nmain()\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_version(acker: Acker) -> None:
    assert acker("--version").stdout.startswith("acker 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["topologies", "show"], "Missing argument 'NAME'"),
        (["topologies", "delete"], "Missing argument 'NAME'"),
        (["run"], "Missing argument 'MODULE:TOPOLOGY'"),
        (["demo", "--fail-rate", "2"], "--fail-rate"),
    ],
)
def test_a_command_line_that_cannot_be_understood(acker: Acker, arguments: list[str], said: str) -> None:
    line = one_line(acker(*arguments), code=2)
    assert said in line
    assert "--help" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["worker", "--topology", "x"], "ACKER_KAFKA__BOOTSTRAP_SERVERS"),
        (["worker"], "ACKER_KAFKA__BOOTSTRAP_SERVERS"),
        (["topologies", "list"], "ACKER_KAFKA__BOOTSTRAP_SERVERS"),
        (["dead-letters", "list", "x"], "ACKER_KAFKA__BOOTSTRAP_SERVERS"),
        (["dead-letters", "replay", "x", "--all"], "ACKER_KAFKA__BOOTSTRAP_SERVERS"),
        (["dead-letters", "replay", "x"], "Give a filter"),
        (["dead-letters", "list", "x", "--since", "soon"], "30m, 2h or 1d"),
        (["run", "nosuchmodule:topology", "--local"], "No module named 'nosuchmodule'"),
        (["run", "json:loads", "--local"], "'json:loads' raised TypeError"),
        (["run", "json:decoder", "--local"], "not a Topology"),
        (["run", "json", "--local"], "MODULE:TOPOLOGY"),
        (["run", "broken:topology", "--local"], "RuntimeError: oops"),
        (["run", "acker_cli.demo.word_count:topology", "--component", "x"], "it has lines, split, count"),
        (["run", "acker_cli.demo.word_count:topology", "--processes", "split"], "--processes split=2"),
        (["config", "show", "--config", "x.toml"], "no file x.toml"),
        (["demo", "--keep", "."], "--keep"),
        (["demo", "--bootstrap-servers", "x:1", "--set", "kafka.no.such=1"], "--set kafka.no.such=VALUE"),
        (["demo", "--bootstrap-servers", "x:1", "--set", "kafka.linger.ms=soon"], "ACKER_KAFKA__LINGER_MS"),
    ],
)
def test_errors_are_one_line(acker: Acker, tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('oops')\n")
    run = acker(*arguments)
    assert said in run.stderr
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_a_traceback_is_there_for_whom_wants_it(acker: Acker, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["config", "show", "--config", "x.toml"]
    assert "Traceback" in acker(*arguments, "--traceback").stderr
    assert "Traceback" in acker("--traceback", *arguments).stderr
    monkeypatch.setenv("ACKER_TRACEBACK", "1")
    assert "Traceback" in acker(*arguments).stderr
    monkeypatch.setenv("ACKER_TRACEBACK", "0")
    assert "Traceback" not in acker(*arguments).stderr


def test_errors_of_ours_explain_themselves_and_others_are_called_what_they_are() -> None:
    assert explain(TopicError("t.acks", "does not exist. Create it")) == "topic t.acks does not exist. Create it"
    assert "ZeroDivisionError" in explain(ZeroDivisionError("by zero"))
    assert "--traceback" in explain(ZeroDivisionError("by zero"))


def test_config_show_for_programs(acker: Acker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acker.toml").write_text("[worker]\nlog_interval_s = 7\n")
    monkeypatch.setenv("ACKER_KAFKA__SASL_PASSWORD", "hush")
    run = acker("config", "show", "--json", "--bootstrap-servers", "k:9092")
    shown = json.loads(run.stdout)
    assert shown["config_file"] == str(tmp_path / "acker.toml")
    by_name = {row["name"]: (row["value"], row["source"]) for row in shown["settings"]}
    assert by_name["worker.log_interval_s"] == (7.0, f"file {tmp_path / 'acker.toml'}")
    assert by_name["kafka.bootstrap.servers"] == ("k:9092", "flag --bootstrap-servers")
    assert by_name["kafka.sasl.password"] == ("********", "environment ACKER_KAFKA__SASL_PASSWORD")
    assert by_name["worker.commit_interval_s"] == (1.0, "default")
    assert "hush" not in run.stdout + run.stderr


def test_config_show_in_plain_lines(acker: Acker) -> None:
    run = acker("config", "show", "--set", "log_level=debug")
    assert "log_level = debug  (flag --set)\n" in run.stdout
    assert "\x1b" not in run.stdout


def test_output_that_nobody_reads_any_more(acker: Acker, tmp_path: Path) -> None:
    run = subprocess.run(
        f"{sys.executable} -m acker_cli config show | true", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert "Traceback" not in run.stderr


def test_the_doctor_without_a_cluster_looks_at_the_machine(acker: Acker) -> None:
    run = acker("doctor")
    assert run.returncode == 0, run.stderr
    assert "Set --bootstrap-servers or ACKER_KAFKA__BOOTSTRAP_SERVERS" in run.stdout
    named = acker("doctor", "words", "--json")
    assert named.returncode == 2
    (finding,) = json.loads(named.stdout)["findings"]
    assert (finding["severity"], finding["check"]) == ("problem", "cluster")


def test_missing_java_is_one_line(acker: Acker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "Install Java 17" in one_line(acker("kafka"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say which trees: give one of ROOT, --message, --oldest and --last-failed"),
        (("1f", "--oldest", "1"), "say which trees"),
        (("first",), "'first' is no root id"),
        (("1f", "--since", "long"), "--since long is no time"),
    ],
)
def test_a_trace_that_cannot_be_understood_asks_no_broker(acker: Acker, arguments: tuple[str, ...], said: str) -> None:
    assert said in one_line(acker("trace", *arguments))
