"""The command line itself: help, errors, exit codes, and that it starts quickly."""

import subprocess
import sys
from pathlib import Path

import typer

from acker_cli.app import app, explain, named
from kafka_clients.errors import TopicsError
from tests.unit.cli.running import Run, call_acker, json_of

SERVERS = "ACKER_KAFKA__BOOTSTRAP_SERVERS"
COUNT = "acker_cli.demo.word_count:topology"

COMMANDS = [
    f"{name} {member}".strip()
    for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
    for member in getattr(command, "commands", [""])
]

NOT_UNDERSTOOD = {
    "bogus": "No such command 'bogus'",
    "topologies show": "Missing argument 'NAME'",
    "run": "Missing argument 'MODULE:TOPOLOGY'",
    "demo --fail-rate 2": "--fail-rate",
}

ERRORS = {
    "worker": SERVERS,
    "topologies list": SERVERS,
    "dead-letters replay x": "Give a filter",
    "dead-letters list x --since soon": "30m, 2h or 1d",
    "run nosuchmodule:topology --local": "No module named 'nosuchmodule'",
    "run json:loads --local": "'json:loads' raised TypeError",
    "run json --local": "MODULE:TOPOLOGY",
    "run broken:topology --local": "RuntimeError: oops",
    f"run {COUNT} --component x": "it has lines, split, count",
    "config show --config x.toml": "no file x.toml",
    "demo --bootstrap-servers x:1 --set kafka.no.such=1": "--set kafka.no.such=VALUE",
    "demo --bootstrap-servers x:1 --set kafka.linger.ms=soon": "ACKER_KAFKA__LINGER_MS",
    "trace": "say which trees: give one of ROOT, --message, --tuple, --oldest and --last-failed",
    "trace first": "'first' is not a root id",
    "trace 1f --since long": "--since long is not a time",
}


def assert_one_line(run: Run, expected_text: str, code: int = 1) -> None:
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (code, "", 1), run
    assert run.stderr.startswith("acker: "), run
    assert expected_text in run.stderr, run


def test_every_help_text_has_examples(tmp_path: Path) -> None:
    assert len(COMMANDS) >= 20
    for command in ("", *COMMANDS):
        run = call_acker(*command.split(), "--help", cwd=tmp_path)
        assert run.returncode == 0
        assert "Examples" in run.stdout, command
        assert f"acker {command}" in run.stdout.partition("Examples")[2], command
    # Brackets are markup of the terminal, unless they are escaped.
    assert "kafka-acker[otel]" in call_acker("trace", "--help", cwd=tmp_path).stdout


def test_without_a_subcommand_there_is_help(tmp_path: Path) -> None:
    for command in ("", "topics", "topologies", "dead-letters", "config"):
        run = call_acker(*command.split(), cwd=tmp_path)
        assert (run.returncode, run.stderr) == (0, "")
        assert "Usage" in run.stdout
    assert call_acker("--version", cwd=tmp_path).stdout.startswith("acker 0.")


def test_an_invalid_command_line_exits_with_2(tmp_path: Path) -> None:
    for command, expected_text in NOT_UNDERSTOOD.items():
        run = call_acker(*command.split(), cwd=tmp_path)
        assert_one_line(run, expected_text, code=2)
        assert "--help" in run.stderr


def test_errors_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('oops')\n")
    (tmp_path / "needy.py").write_text("import json\nimport no_such_package.part\n")
    needy = call_acker("run", "needy:topology", "--local", cwd=tmp_path)
    assert_one_line(needy, "No module named 'no_such_package'")
    assert f"({tmp_path / 'needy.py'}, line 2); install it where acker runs: " in needy.stderr
    assert needy.stderr.strip().endswith("-m pip install no_such_package")
    for command, expected_text in ERRORS.items():
        assert_one_line(call_acker(*command.split(), cwd=tmp_path), expected_text)
    no_java = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    assert_one_line(call_acker("kafka", cwd=tmp_path, environment=no_java), "Install Java 17")


def test_tracebacks_are_printed_at_debug_only(tmp_path: Path) -> None:
    arguments = ["config", "show", "--config", "x.toml"]
    assert "Traceback" in call_acker(*arguments, "--traceback", cwd=tmp_path).stderr
    assert "Traceback" in call_acker("--traceback", *arguments, cwd=tmp_path).stderr
    for value, shown in (("1", True), ("0", False)):
        run = call_acker(*arguments, cwd=tmp_path, environment={"ACKER_TRACEBACK": value})
        assert ("Traceback" in run.stderr) is shown
    assert explain(TopicsError("t.acks", "does not exist. Create it")) == "topic t.acks does not exist. Create it"
    for expected_text in ("ZeroDivisionError", "--traceback"):
        assert expected_text in explain(ZeroDivisionError("by zero"))


def test_config_show(tmp_path: Path) -> None:
    (tmp_path / "acker.toml").write_text("[worker]\nlog_interval_s = 7\n")
    hush = {"ACKER_KAFKA__SASL_PASSWORD": "hush"}
    shown = json_of(call_acker("config", "show", "--json", cwd=tmp_path, environment=hush))
    assert shown["config_file"] == str(tmp_path / "acker.toml")
    by_name = {row["name"]: (row["value"], row["source"]) for row in shown["settings"]}
    assert by_name["worker.log_interval_s"] == (7.0, f"file {tmp_path / 'acker.toml'}")
    assert by_name["kafka.sasl.password"] == ("********", "environment ACKER_KAFKA__SASL_PASSWORD")
    plain = call_acker("config", "show", "--set", "log_level=debug", cwd=tmp_path).stdout
    assert "log_level = debug  (flag --set)\n" in plain
    assert "\x1b" not in plain


def test_help_does_not_import_the_modules_of_commands() -> None:
    heavy = ["numba", "pyspark", "confluent_kafka", "pydantic", "fastavro", "spout_sdk", "acker_worker", "local_kafka"]
    script = (
        "import sys\nfrom acker_cli.app import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n"
        f"    print([name for name in {heavy} if name in sys.modules], file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"


def test_a_closed_pipe_causes_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m acker_cli config show | true"
    run = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stderr == ""


def test_an_error_names_the_topology_that_was_given() -> None:
    message = "it does not exist. Create it: acker topics create MODULE:TOPOLOGY"
    assert named(message, ["run", "--processes", "1", "my.mod:build"]).endswith("acker topics create my.mod:build")
    assert named(message, ["top", "words", "--bootstrap-servers", "b-1:9092"]) == message
