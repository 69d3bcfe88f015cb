"""The demo: the command on a broker, with and without faults."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kafka_clients.catalogue import Catalogue
from tests.unit.cli.running import run_acker
from tests.waiting import eventually


def demo(cwd: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Runs the demo.

    Returns:
        The object that it printed last on standard output, and what it wrote to standard error.
    """
    run = run_acker("demo", "--json", *arguments, cwd=cwd, seconds=280)
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    report: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return report, run.stderr


def check(report: dict[str, Any], total: int) -> None:
    """Invariants of every run."""
    assert report["counts_match"] is True
    assert report["lines"] == report["lines_acked"] == total
    assert report["pending"] == 0
    assert report["duplicate_inits"] == 0
    assert 0 < report["complete_latency_ms"]["p50"] <= report["complete_latency_ms"]["p99"]


def test_every_line_is_acked_and_the_demos_topics_are_deleted(tmp_path: Path, bootstrap_servers: str) -> None:
    report, output = demo(tmp_path, "--bootstrap-servers", bootstrap_servers, "--lines", "300", "--fail-rate", "0.02")
    check(report, 300)
    assert report["failed_by_reason"]["failed"] > 0
    assert report["acked"] == 300
    assert report["replayed"] == report["failed"] == report["emitted"] - 300
    assert (report["acker_kills"], report["bolt_kills"]) == (0, 0)
    catalogue = Catalogue({"bootstrap.servers": bootstrap_servers})
    (name,) = re.findall(r"topology (word-count-\S+)", output)
    assert name not in catalogue.manifests()
    eventually(lambda: not [each for each in catalogue.topics() if each.startswith(name)], "its topics are gone")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_failures_and_kills_do_not_change_the_counts(tmp_path: Path) -> None:
    report, output = demo(tmp_path, "--lines", "8000", "--fail-rate", "0.02", "--kill", "--seed", "7")
    check(report, 8000)
    assert (report["acker_kills"], report["bolt_kills"]) == (1, 1)
    assert report["failed_by_reason"]["failed"] > 200
    for text in ("killed acker worker", "another one starts", "restarting"):
        assert text in output
