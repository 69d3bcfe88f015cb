"""The tutorial as a reader pastes it, without a Kafka; with one it is run in `tests/kafka/test_sdk_examples.py`."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spout_sdk.testing import SimulatedCluster
from tests.pages import pasted

PAGE = "docs/tutorial.md"


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    names = pasted(PAGE, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_the_tests_of_the_tutorial_pass(imported: Callable[[str], Any]) -> None:
    module = imported("test_readings")
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()


def test_from_a_topic_to_a_topic(imported: Callable[[str], Any]) -> None:
    topics = {"thermometers": 2, "warmest": 1}
    with SimulatedCluster(imported("pipeline").topology, topics=topics) as cluster:
        for celsius in ("20", "7", "31.5"):
            cluster.produce("thermometers", f"attic {celsius} C", partition=0)
        cluster.produce("thermometers", "attic unplugged", partition=0)
        cluster.kill("thermometers", task=0)
        cluster.advance(40)
        assert cluster.uncommitted("thermometers") == {"thermometers[0]": 0, "thermometers[1]": 0}
        *_, last = cluster.records("warmest")
        assert (last.key(), last.value()) == (b"attic", b'{"sensor":"attic","celsius":31.5}')
        [letter] = cluster.dead_letters()
        assert "expected 2, got 1" in letter.detail


def test_failed_readings_are_replayed(imported: Callable[[str], Any]) -> None:
    with SimulatedCluster(imported("flaky").topology) as cluster:
        cluster.run_until(lambda: cluster.failed("thermometers"))
        (number, failure), *_ = cluster.failed("thermometers")
        assert failure.message == "OSError: the cable is loose"
        cluster.run_until(lambda: number in cluster.acked("thermometers"))
