"""The demo itself: the real command, on a real broker, with and without trouble."""

import json
from pathlib import Path
from typing import Any

import pytest

from acker_cli.demo.text import lines
from acker_worker.catalogue import Catalogue
from tests.unit.cli.running import run_acker


def demo(cwd: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Runs the demo.

    Returns:
        The object that stands last on its standard output, and what it wrote to standard error.
    """
    run = run_acker("demo", "--json", *arguments, cwd=cwd, seconds=280)
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    report: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return report, run.stderr


def check(report: dict[str, Any]) -> None:
    """What holds of every run, whatever happened in it."""
    assert report["counts_match"] is True
    assert report["lines"] == report["lines_acked"] == report["acked"] == len(lines()) > 20_000
    assert report["pending"] == 0
    assert report["failed"] == sum(report["failed_by_reason"].values())
    assert report["emitted"] == report["acked"] + report["failed"]
    assert report["replayed"] == report["failed"]
    assert report["duplicate_inits"] == 0
    assert report["seconds"] > 0
    assert report["tuples_per_second"] > 1000
    assert 0 < report["complete_latency_ms"]["p50"] <= report["complete_latency_ms"]["p99"]


@pytest.mark.exhaustive
def test_all_goes_well_and_the_cluster_is_left_as_it_was(tmp_path: Path, bootstrap_servers: str) -> None:
    catalogue = Catalogue({"bootstrap.servers": bootstrap_servers})
    report, _ = demo(tmp_path, "--bootstrap-servers", bootstrap_servers)
    check(report)
    # With kills it takes as long as what times out on the way, which depends on what else the machine does.
    assert report["seconds"] < 90
    assert (report["acker_kills"], report["bolt_kills"]) == (0, 0)
    assert not [topic for topic in catalogue.topics() if topic.startswith("word-count-")]
    assert not [topology for topology in catalogue.manifests() if topology.startswith("word-count-")]
    assert list(tmp_path.iterdir()) == []


def test_failures_and_kills_change_nothing_in_the_counts(tmp_path: Path) -> None:
    report, said = demo(tmp_path, "--fail-rate", "0.02", "--kill", "--seed", "7")
    check(report)
    assert (report["acker_kills"], report["bolt_kills"]) == (1, 1)
    assert report["failed_by_reason"]["failed"] > 1000
    assert report["replayed"] > 1000
    assert "killed acker worker" in said
    assert "another one starts" in said
    assert "restarting" in said


def test_a_part_of_the_text_is_counted_as_the_whole_is(tmp_path: Path, bootstrap_servers: str) -> None:
    report, _ = demo(tmp_path, "--bootstrap-servers", bootstrap_servers, "--lines", "1000")
    assert report["counts_match"] is True
    assert report["lines"] == report["lines_acked"] == report["acked"] == 1_000
