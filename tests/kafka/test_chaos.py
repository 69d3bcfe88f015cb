"""`acker chaos` finds nothing in a topology that is right, finds what is wrong, and ends all that it has started."""

import json
import re
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from tests.kafka.sdk_topologies import NAME
from tests.kafka.source_topologies import SOURCE
from tests.topics import create_topics
from tests.unit.cli.running import Run, call_acker, run_acker, running_acker

LINES = "order\norder that works once more\norder that never works\n"


class Shop:
    """A published topology of `source_topologies`, and a file for its source."""

    def __init__(self, servers: str, directory: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
        self.name, self.servers, self.directory = f"chaos-{uuid.uuid4().hex[:6]}", servers, directory
        self.reference, self.source = f"tests.kafka.source_topologies:{function}", f"{self.name}.source"
        (directory / "lines.txt").write_text(LINES)
        monkeypatch.setenv(NAME, self.name)
        monkeypatch.setenv(SOURCE, self.source)
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        create_topics({"bootstrap.servers": servers}, [NewTopic(self.source, 2, 1)])
        created = call_acker("topics", "create", self.reference, servers=servers)
        assert created.returncode == 0, created.stderr

    def chaos(self, *arguments: str) -> Run:
        feed = ("--feed", f"{self.source}=lines.txt")
        line = ("chaos", self.reference, "--bootstrap-servers", self.servers, "--json", *feed, *arguments)
        return run_acker(*line, cwd=self.directory)


def report_of(run: Run) -> dict[str, Any]:
    assert run.stdout, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    return report


def test_kills_of_a_right_topology_are_no_violation_and_a_message_without_an_ack_is_one(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Shop(bootstrap_servers, tmp_path, monkeypatch, "soon_timed_out")
    run = right.chaos("--beside-others", "--duration", "2", "--every", "0.5", "--seed", "11", "--target", "see")
    report = report_of(run)
    assert (run.returncode, report["violations"]) == (0, []), run.stderr
    assert [each["kind"] for each in report["faults"]] == ["terminate see", "kill see"], "as the seed draws them"
    (count,) = report["sources"].values()
    assert count["messages"] == count["acked"] + count["dead-letter"] > 50
    assert count["dead-letter"] == report["dead_letters"]["retries-exhausted"] > 0
    assert report["trees"]["failed"] > count["dead-letter"]

    wrong = Shop(bootstrap_servers, tmp_path, monkeypatch, "never_acked")
    refused = wrong.chaos("--duration", "0")
    assert refused.returncode == 1
    assert re.search(rf"other topologies \(.*{right.name}.*--beside-others", refused.stderr)
    run = wrong.chaos("--beside-others", "--duration", "0.5", "--settle", "0", "--every", "10", "--ackers", "0")
    report = report_of(run)
    assert run.returncode == 1
    problems = {each["problem"]: each for each in report["violations"]}
    assert set(problems) == {"message open", "not at rest 0 s after the faults"}
    assert problems["message open"]["count"] == report["sources"][wrong.source]["messages"] > 10
    assert "`see`" in problems["message open"]["examples"][0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_all_processes_end_with_the_command_suspended_ones_included(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    shop = Shop(bootstrap_servers, tmp_path, monkeypatch, "soon_timed_out")
    given = ("--local", "--feed", f"{shop.source}=lines.txt", "--every", "0.01", "--duration", "600", "--seed", "0")
    with running_acker("chaos", shop.reference, *given, cwd=tmp_path) as command:
        command.wait_for("suspend")
        assert command.end(number) == (130 if number == signal.SIGINT else -number)
        assert "Traceback" not in command.output


@pytest.mark.exhaustive
def test_all_kinds_of_faults_lose_nothing(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(bootstrap_servers, tmp_path, monkeypatch, "soon_timed_out")
    given = ("--local", "--feed", f"{shop.source}=lines.txt", "--every", "1", "--duration", "60", "--json")
    run = run_acker("chaos", shop.reference, *given, cwd=tmp_path, seconds=300)
    report = report_of(run)
    assert run.returncode == 0, f"{run.stderr}\n{run.stdout}"
    assert {each["kind"].split()[0] for each in report["faults"]} == {"kill", "suspend", "terminate"}
