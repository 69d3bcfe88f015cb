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


def test_from_a_topic_to_a_topic(imported: Callable[[str], Any], capsys: pytest.CaptureFixture[str]) -> None:
    imported("lines")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1001
    with SimulatedCluster(imported("readings").topology) as cluster:
        for line in lines:
            cluster.produce("thermometers", line)
        cluster.run_until_idle()
        assert cluster.state("warmest") == {"sensor-0": 99.9, "sensor-1": 99.7, "sensor-2": 99.8}
        last = {record.key(): record.value() for record in cluster.records("warmest")}
        assert last[b"sensor-0"] == b'{"sensor":"sensor-0","celsius":99.9}'
        [letter] = cluster.dead_letters()
        assert "expected 2, got 1" in letter.detail


def test_failed_lines_are_replayed(imported: Callable[[str], Any]) -> None:
    with SimulatedCluster(imported("flaky").topology) as cluster:
        for number in range(1000):
            cluster.produce("thermometers", f'{{"sensor": "attic", "text": "{number} C"}}')
        cluster.run_until_idle()
        cluster.advance(10)
        assert {failure.message for _, failure in cluster.failed("thermometers")} == {"the cable is loose"}
        assert len(cluster.acked("thermometers")) == 1000
