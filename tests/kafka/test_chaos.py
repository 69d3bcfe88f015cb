"""`acker chaos` finds nothing in a topology that is right, finds what is wrong, and ends all that it has started."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.sdk_rig import Source, Use
from tests.pages import ROOT
from tests.unit.cli.running import Run, call_acker, run_acker, running_acker

LINES = "order\norder that works once more\norder that never works\n"
Shop = Callable[[str], Source]


@pytest.fixture
def shop(use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A published topology, and a file for its source."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "lines.txt").write_text(LINES)

    def shop(topology: str) -> Source:
        made = use(topology, 2)
        created = call_acker("topics", "create", made.reference, servers=made.servers)
        assert created.returncode == 0, created.stderr
        return made

    return shop


def chaos(shop: Source, directory: Path, *arguments: str) -> Run:
    feed = ("--feed", f"{shop.source}=lines.txt")
    line = ("chaos", shop.reference, "--bootstrap-servers", shop.servers, "--json", *feed, *arguments)
    return run_acker(*line, cwd=directory)


def report_of(run: Run) -> dict[str, Any]:
    assert run.stdout, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    return report


@pytest.mark.exhaustive
def test_kills_of_a_right_topology_are_no_violation_and_a_message_without_an_ack_is_one(
    shop: Shop, tmp_path: Path
) -> None:
    right = shop("soon_timed_out")
    given = ("--beside-others", "--duration", "2", "--every", "0.5", "--seed", "11", "--target", "see")
    run = chaos(right, tmp_path, *given)
    report = report_of(run)
    assert (run.returncode, report["violations"]) == (0, []), run.stderr
    assert [each["kind"] for each in report["faults"]] == ["terminate see", "kill see"], "as the seed draws them"
    (count,) = report["sources"].values()
    assert count["messages"] == count["acked"] + count["dead-letter"] > 50
    assert count["dead-letter"] == report["dead_letters"]["retries-exhausted"] > 0
    assert report["trees"]["failed"] > count["dead-letter"]

    wrong = shop("never_acked")
    alone = ("chaos", wrong.reference, "--duration", "0", "--feed", f"{wrong.source}=lines.txt")
    refused = call_acker(*alone, servers=wrong.servers, cwd=tmp_path)
    assert refused.returncode == 1
    assert re.search(rf"other topologies \(.*{right.name}.*--beside-others", refused.stderr)
    given = ("--beside-others", "--duration", "0.5", "--settle", "0", "--every", "10", "--ackers", "0")
    run = chaos(wrong, tmp_path, *given)
    report = report_of(run)
    assert run.returncode == 1
    problems = {each["problem"]: each for each in report["violations"]}
    assert set(problems) == {"message open", "not at rest 0 s after the faults"}
    assert problems["message open"]["count"] == report["sources"][wrong.source]["messages"] > 10
    assert "`see`" in problems["message open"]["examples"][0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_all_processes_end_with_the_command_suspended_ones_included(
    shop: Shop, tmp_path: Path, number: signal.Signals
) -> None:
    made = shop("soon_timed_out")
    given = ("--local", "--feed", f"{made.source}=lines.txt", "--every", "0.01", "--duration", "600", "--seed", "0")
    with running_acker("chaos", made.reference, *given, cwd=tmp_path) as command:
        command.wait_for("suspend")
        assert command.end(number) == (130 if number == signal.SIGINT else -number)
        assert "Traceback" not in command.output


@pytest.mark.exhaustive
def test_all_kinds_of_faults_lose_nothing(shop: Shop, tmp_path: Path) -> None:
    made = shop("soon_timed_out")
    given = ("--local", "--feed", f"{made.source}=lines.txt", "--every", "1", "--duration", "60", "--json")
    run = run_acker("chaos", made.reference, *given, cwd=tmp_path, seconds=300)
    report = report_of(run)
    assert run.returncode == 0, f"{run.stderr}\n{run.stdout}"
    assert {each["kind"].split()[0] for each in report["faults"]} == {"kill", "suspend", "terminate"}
