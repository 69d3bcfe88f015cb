"""Bolts killed with SIGKILL where at most once is promised: no output is there twice."""

from pathlib import Path

import pytest

from tests.kafka.guarantee_rig import Start, produce_numbers, start_again, starter
from tests.waiting import eventually


@pytest.fixture
def start(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Start:
    return starter(bootstrap_servers, monkeypatch, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["executing", "emitted", "committed"])
def test_at_most_once_repeats_nothing(start: Start, step: str) -> None:
    run = start("at_most_once", processes=1)
    with run.runner:
        for _ in range(2):
            run.produces()
            run.kill_at(step)
        run.produces()
        run.enough()
        eventually(lambda: all(at == end for at, end in run.cluster.progress("transform").values()), "all inputs read")
    outputs, expected = run.outputs(), run.expected()
    assert set(outputs.values()) == {1}
    assert outputs.keys() <= expected.keys()
    if step != "emitted":
        # So that a kill is known to lose something: an input was committed, and not executed any more.
        assert outputs.keys() < expected.keys()


def test_a_clean_stop_of_at_most_once_loses_nothing(start: Start) -> None:
    run = start("at_most_once", processes=1)
    run.enough()
    produce_numbers(run, 5_000)
    with run.runner:
        eventually(lambda: run.runner.stats()["transform"].executed > 100, "some inputs executed")
    with start_again(run).runner:
        eventually(lambda: run.outputs() == run.expected(), "all outputs, each once")
