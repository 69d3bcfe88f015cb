"""Statistics as they come: a slow reader takes no process for one that has ended."""

from dataclasses import dataclass
from typing import Any

import pytest

from inspection import statistics
from inspection.dashboard.overview import row
from inspection.dashboard.source import joined
from inspection.statistics import StatisticsReader
from inspection.view import TopologyView
from kafka_clients.log_reader import Place
from tests.unit.inspection.reports import NOW, each_second, manifest
from tuple_tree.control import Control
from tuple_tree.names import stats_topic
from tuple_tree.process_stats import StatsRecord

SECONDS_30 = 30_000


@dataclass
class Record:
    """A record as a consumer returns it."""

    stats: StatsRecord

    def topic(self) -> str:
        return stats_topic("words")

    def key(self) -> bytes:
        return self.stats.key

    def value(self) -> bytes:
        return self.stats.to_json()

    def timestamp(self) -> tuple[int, int]:
        return 1, self.stats.at_ms


class Machine:
    """A machine on which each read takes 30 s, and the records of a topic, which polls return one by one."""

    def __init__(self, records: list[StatsRecord], later: list[StatsRecord]) -> None:
        self.now_ms = NOW
        self.records, self.later = [Record(each) for each in records], [Record(each) for each in later]

    def offset_ranges(self, places: list[Place], *_: int | None) -> dict[Place, range]:
        return {place: range(len(self.records)) for place in places}

    def read(self, _what: str, _kept: dict[Place, range], take: Any) -> None:
        for record in self.records:
            take(record)
        self.now_ms += SECONDS_30

    def assign(self, _starts: dict[Place, int]) -> None: ...

    def poll(self, _seconds: float, **_: Any) -> list[Record]:
        self.now_ms += SECONDS_30
        return [self.later.pop(0)] if self.later else []


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    records = each_second(range(0, 70, 10))
    machine = Machine(records, each_second(range(70, 90, 10), at_ms=NOW + 2000))
    monkeypatch.setattr(statistics, "LogReader", lambda *_, **__: machine)
    monkeypatch.setattr(statistics, "local_ms", lambda: machine.now_ms)
    return machine


def test_a_process_has_not_ended_because_its_statistics_are_read_late(machine: Machine) -> None:
    view = TopologyView(manifest())
    reader = StatisticsReader({}, [view])

    def processes() -> int:
        return view.snapshot(reader.read_to_ms)["components"][0]["processes"]

    reader.read(NOW - 60_000)
    assert (machine.now_ms, processes()) == (NOW + SECONDS_30, 1)
    for _ in range(2):
        reader.poll(1.0)
        assert processes() == 1
    # There was nothing to read after it.
    reader.poll(1.0)
    reader.poll(1.0)
    assert processes() == 0


def test_an_overview_has_the_state_and_the_worst_finding_of_a_topology() -> None:
    view = TopologyView(manifest())
    view.feed([*each_second(range(0, 700, 10)), *each_second(range(0, 700, 10), pid=2)])
    shown = row(view, NOW, Control("paused"))
    assert (shown["topology"], shown["control"], shown["processes"]) == ("words", "paused", 2)
    running = row(view, NOW, Control())
    assert running["severity"] == "problem"
    assert running["verdict"].startswith("No process runs bolt split")
    stopped = row(view, NOW + 60_000, Control("stopped"))
    assert (stopped["processes"], stopped["severity"]) == (0, None)


def test_points_of_an_earlier_history_are_before_those_of_a_later_one() -> None:
    earlier, later = [{"at": at} for at in (1, 2, 3, 4)], [{"at": at} for at in (4, 5)]
    assert [point["at"] for point in joined(earlier, later, 1)] == [2, 3, 4, 5]
    assert joined(earlier, [], 0) == earlier
