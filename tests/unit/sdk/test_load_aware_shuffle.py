"""Shuffle groupings that follow the load: what a task reports, what a process reads, and what it emits by."""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_clients.librdkafka_bugs import BrokerMonitor
from spout_sdk import Topology, TopologyBuilder
from spout_sdk.runtime.share_watch import ShareWatch, shuffled_bolts
from tests.components import Sink, passing
from tests.unit.sdk.bench import Bench, Lines
from tests.unit.sdk.loop_rig import Rig
from tests.unit.sdk.test_task_shares import record

Pass = passing(*Lines.streams)


def topology() -> Topology:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", Lines)
    builder.set_bolt("work", Pass, tasks=3).shuffle_grouping("lines").local_or_shuffle_grouping("even")
    builder.set_bolt("even", Pass, tasks=2).shuffle_grouping("lines", load_aware=False)
    builder.set_bolt("one", Sink).shuffle_grouping("lines")
    builder.set_bolt("keyed", Sink, tasks=2).fields_grouping("lines", "line").fields_grouping("work", "line")
    return builder.build()


def test_only_shuffles_that_follow_the_load_have_shares() -> None:
    made = topology()
    assert {name: shuffled_bolts(made, name) for name in ("lines", "even", "work", "keyed")} == {
        "lines": {"work": 3},
        "even": {"work": 3},
        "work": {},
        "keyed": {},
    }
    plan = Bench(made).spout("lines").raw.plans["default"]
    for bolt, tasks in (("work", 3), ("even", 2), ("keyed", 2)):
        plan.set_shares(bolt, [0.98, *[0.02 / (tasks - 1)] * (tasks - 1)])
    chosen = Counter((*each,) for n in range(1_000) for each in [pack.receiver for pack in plan.choose((f"line {n}",))])
    of = {bolt: [chosen[bolt, task] for task in range(tasks)] for bolt, tasks in (("work", 3), ("even", 2))}
    assert of["work"][0] > 950
    assert of["even"] == [500, 500]
    assert chosen["one", 0] == 1_000
    assert max(chosen["keyed", 0], chosen["keyed", 1]) < 600


def statistics(*parts: tuple[int, int, int, int, int], topic: str = "t") -> str:
    names = ("partition", "fetchq_cnt", "next_offset", "ls_offset", "app_offset")
    partitions = {str(part[0]): {**dict(zip(names, part, strict=True)), "fetch_state": "active"} for part in parts}
    return json.dumps({"brokers": {"one": {"source": "learned"}}, "topics": {topic: {"partitions": partitions}}})


def test_what_is_unread_is_known_for_each_partition_and_while_it_is_paused() -> None:
    monitor = BrokerMonitor(1_000)
    monitor.on_stats(statistics((0, 7, 110, 120, 100), (1, 0, 50, 50, 49), (2, 0, -1001, -1001, -1001)))
    assert monitor.unread == {("t", 0): 17, ("t", 1): 0, ("t", 2): 0}
    assert monitor.unused == {("t", 0): 20, ("t", 1): 1, ("t", 2): 0}
    for _ in range(10):
        assert not monitor.lost
        monitor.on_stats(json.dumps({"brokers": {}}))
    assert monitor.lost, "after as many seconds as with the interval of others"


def test_a_bolt_reports_the_tuples_that_wait_in_a_paused_partition_too() -> None:
    """A slow task is paused while its process polls the group in the middle of a record."""
    rig = Rig([1, 1] + [0] * 200, rows=100)
    waiting: list[tuple[bool, int]] = []

    def seconds(_offset: int) -> float:
        rig.consumer.settings["stats_cb"](statistics((0, 0, 9, 9, 1), topic="words.tuples.b"))
        waiting.append((bool(rig.consumer.asleep), rig.loop.stats().task_waiting["0"]))
        return 0.6

    rig.seconds = seconds
    rig.stopping = lambda: len(rig.executed) >= 50
    rig.run()
    assert waiting[0] == (False, 99)
    assert waiting[40] == (True, 59 + 8 * 99), "of each record, the tuples that were not begun at the first report"
    assert rig.loop.stats().task_waiting == {}, "of tasks that it owns"


class Stats:
    """A consumer of statistics."""

    def __init__(self) -> None:
        self.come: list[Any] = []
        self.raises: Exception | None = None
        self.closed = 0

    def __call__(self, settings: Any) -> "Stats":
        self.settings = settings
        return self

    def assign(self, partitions: Any) -> None:
        ((self.topic, self.partition),) = [(each.topic, each.partition) for each in partitions]

    def resume(self, _partitions: Any) -> None: ...

    def offsets_for_times(self, *_: Any, **_timeout: float) -> None: ...

    def poll(self, seconds: float) -> Any:
        assert seconds == 0, "nothing may wait"
        if self.raises is not None:
            raise self.raises
        return self.come.pop(0) if self.come else None

    def consume(self, _most: int, seconds: float) -> list[Any]:
        assert seconds == 0, "nothing may wait"
        come, self.come = self.come, []
        return come

    def close(self) -> None:
        self.closed += 1


def message(key: bytes, value: bytes, code: int | None = None) -> Any:
    error = None if code is None else KafkaError(code)
    at = {"topic": lambda: "words.stats", "partition": lambda: 0, "offset": lambda: 7}
    return SimpleNamespace(key=lambda: key, value=lambda: value, error=lambda: error, timestamp=lambda: (2, 0), **at)


def test_a_process_sets_shares_by_the_statistics_of_its_receivers_whatever_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stats = Stats()
    monkeypatch.setattr("kafka_clients.log_reader.Consumer", stats)
    shares: list[Sequence[float]] = []
    watch = ShareWatch(topology(), "lines", {"bootstrap.servers": "unused:1"}, lambda _bolt, each: shares.append(each))
    assert (stats.topic, stats.partition, stats.settings["group.id"]) == ("words.stats", 0, "words.lines")
    good = [record(task, 10, executed, 10, 0) for task, executed in enumerate((1_000, 10_000, 10_000))]
    odd = record(0, 11, 0, 0, 0)
    odd_stats = json.dumps({"v": 1, "run": "a", "uptime_ms": 11_000, "ended": False, "stats": {"tasks": ["x"]}})
    stats.come = [
        *(message(each.key, each.to_json()) for each in good),
        message(b"component/work/host/1", b"not JSON"),
        message(odd.key, odd_stats.encode()),
        message(b"component/another/host/1", odd.to_json()),
    ]
    with caplog.at_level(logging.WARNING):
        watch.look(1.0)
        stats.come = [message(b"", b"", KafkaError.TOPIC_AUTHORIZATION_FAILED)]
        watch.look(1.5)
    assert shares[-1] == pytest.approx([1 / 21, 10 / 21, 10 / 21])
    refused, skipped = sorted(caplog.messages, key=len, reverse=True)
    assert "words.stats is not read: " in refused
    assert "acker topics acls MODULE:TOPOLOGY --role lines" in refused
    assert skipped.startswith("statistics of work are skipped: ValueError")
    watch.look(1.7)
    assert len(shares) == 2, "twice a second"
    stats.raises = KafkaException(KafkaError(KafkaError._STATE))
    watch.look(2.1)
    monkeypatch.setattr(BrokerMonitor, "lost", True)
    watch.look(9.0)
    assert shares[-1] == [1 / 3] * 3
    assert stats.closed == 1, "a client that has lost all brokers is replaced"
    watch.close()
    assert stats.closed == 2


def test_a_component_without_such_receivers_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_clients.log_reader.Consumer", lambda _settings: pytest.fail("a consumer"))
    watch = ShareWatch(topology(), "work", {"bootstrap.servers": "unused:1"}, lambda *_: pytest.fail("shares"))
    watch.look(1.0)
    watch.close()
