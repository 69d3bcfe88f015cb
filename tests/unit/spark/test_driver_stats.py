"""What a driver says of its component: the counts, and that nothing here is of any matter to the query."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from spark_jobs.driver_stats import DriverStats, driver_stats
from spark_jobs.micro_batch import Written
from spark_jobs.outcomes import Outcomes
from spark_jobs.spout_batch import Found
from spark_jobs.tallies import BoltTally, SpoutTally
from spout_sdk.stats import Stats
from tests.spark.topologies import manifest_of
from tests.waiting import eventually
from tuple_tree.ids import IdColumn, Position, positional_root
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.process_stats import StatsRecord
from tuple_tree.source_positions import SourcePositions
from tuple_tree.stats_publisher import StatsPublisher

MANIFEST = manifest_of("words")
BOLT, SPOUT = MANIFEST.component("split"), MANIFEST.component("lines")


class Clock:
    """Seconds, as told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Wire:
    """A producer, and a broker that has the topic."""

    def __init__(self) -> None:
        self.records: list[StatsRecord] = []

    def produce(self, _topic: str, value: bytes, key: bytes, *, on_delivery: Callable[[Any, Any], None]) -> None:
        on_delivery(None, None)
        self.records.append(StatsRecord.of(key, value, 0))

    def poll(self, _timeout: float) -> int:
        return 0

    def flush(self, _timeout: float) -> int:
        return 0

    def ask(self, topic: str) -> Mapping[str, "Future[str]"]:
        answer: Future[str] = Future()
        answer.set_result("an-id")
        return {topic: answer}

    def publisher(self) -> StatsPublisher:
        return StatsPublisher(
            "words", "component", "split", self, self.ask, lambda answer: answer.result(), ValueError, now=0.0
        )


def written(**counts: Any) -> Written:
    return Written(**{"rows": 0, "tuples": 0, "acks": 0, "failed": 0, "dead": 0, "seconds": 1.0, **counts})


def roots(positions: Iterable[tuple[int, int]]) -> IdColumn:
    """Of offsets in partition 2, and their attempts."""
    return np.array([positional_root(Position(0, 2, offset, attempt)) for offset, attempt in positions], np.uint64)


def acks(*positions: tuple[int, int]) -> NoticeBatch:
    return NoticeBatch(0, 0, acked_roots=roots(positions))


def fails(reason: FailReason, *positions: tuple[int, int]) -> NoticeBatch:
    reasons = np.full(len(positions), reason, np.uint8)
    return NoticeBatch(0, 0, failed_roots=roots(positions), fail_reasons=reasons, fail_messages=("",) * len(positions))


def outcomes_of(clock: Clock) -> Outcomes:
    return Outcomes(SourcePositions(1_000.0, clock.now), 0, 100, clock)


def delivered(outcomes: Outcomes, *offsets: int) -> None:
    outcomes.reserve([Found(2, offsets, dead=(), tuples=0)], lambda: 0, lambda: False)


def latency(stats: Mapping[str, Any]) -> tuple[int, float]:
    """How many trees, and the longest, in whole seconds."""
    found = Stats.of(stats).complete_latency
    return found.total, round(found.quantile(1.0))


def test_micro_batches_of_a_bolt_add_up() -> None:
    tally = BoltTally(BOLT)
    tally.add(written(rows=10, tuples=40, emitted=20, failed=1, dead=2, acked=7))
    tally.add(written(rows=5, tuples=10, emitted=5, acked=5))
    said = Stats.of(tally.stats())
    assert (said.component, said.tasks) == ("split", (0, 1))
    assert (said.executed, said.acked, said.failed, said.dead_letters) == (13, 12, {"failed": 1}, 2)
    assert (said.emitted, said.transferred) == (25, 50)
    assert [each.total for each in (said.execute_latency, said.process_latency, said.complete_latency)] == [0, 0, 0]
    assert "pending" not in tally.stats()


def test_what_one_micro_batch_does_not_tell_is_not_told_any_more() -> None:
    tally = BoltTally(BOLT)
    tally.add(written(rows=10, emitted=10, acked=10))
    tally.add(written(rows=10, failed=3))
    tally.add(written(rows=10, emitted=10, acked=10))
    assert not {"emitted", "acked"} & tally.stats().keys()
    assert tally.stats()["executed"] == 30


def test_a_spout_counts_what_it_wrote_and_what_it_heard() -> None:
    clock = Clock()
    outcomes = outcomes_of(clock)
    tally = SpoutTally(SPOUT, True, outcomes)
    tally.add([Found(2, range(10, 16), dead=(15,), tuples=10)])
    delivered(outcomes, *range(10, 16))
    outcomes.done(2, [15])
    outcomes.heard(acks((10, 0), (11, 0), (99, 0)))
    outcomes.heard(fails(FailReason.FAILED, (12, 0)))
    outcomes.heard(fails(FailReason.TIMEOUT, (13, 0)))
    stats = tally.stats()
    said = Stats.of(stats)
    assert (said.emitted, said.transferred, said.dead_letters, said.executed) == (5, 10, 1, 0)
    assert (said.acked, said.failed, said.pending) == (2, {"failed": 1, "timeout": 1}, 1)
    assert said.ignored_notices == 1
    clock.now += 10_000
    outcomes.tick(clock.now)
    assert tally.stats()["failed"] == {"failed": 1, "timeout": 1, "lost": 1}
    assert tally.stats()["pending"] == 0


def test_what_the_last_driver_heard_is_not_counted_again() -> None:
    clock = Clock()
    outcomes = outcomes_of(clock)
    outcomes.recovered([Found(2, range(10, 20), dead=(), tuples=0)], 0)
    outcomes.heard(acks((10, 0), (99, 0)))
    outcomes.heard(fails(FailReason.FAILED, (11, 0)))
    tally = SpoutTally(SPOUT, True, outcomes)
    outcomes.heard(acks((12, 0)))
    said = Stats.of(tally.stats())
    assert (said.acked, said.failed, said.ignored_notices, said.pending) == (1, {}, 0, 7)
    assert said.complete_latency.total == 0, "when it was delivered is not known"


def test_the_complete_latency_is_that_of_the_attempt_that_was_acked() -> None:
    clock = Clock()
    outcomes = outcomes_of(clock)
    tally = SpoutTally(SPOUT, True, outcomes)
    delivered(outcomes, 10, 11, 12)
    clock.now += 4
    delivered(outcomes, 13, 14)
    clock.now += 1
    outcomes.heard(acks((13, 0)))
    assert latency(tally.stats()) == (1, 1)
    outcomes.heard(acks((10, 0)))
    assert latency(tally.stats()) == (2, 5)
    outcomes.heard(fails(FailReason.FAILED, (11, 0), (12, 0)))
    clock.now += 100
    assert {each.offset for each in outcomes.take_due(10, 10)} == {11, 12}
    clock.now += 20
    outcomes.heard(acks((11, 1)))
    total, longest = latency(tally.stats())
    assert total == 3
    assert longest == pytest.approx(20, rel=0.125), "since the replay"
    # Of an attempt that an earlier process made, nothing is known.
    outcomes.heard(acks((12, 2)))
    assert Stats.of(tally.stats()).acked == 4
    assert latency(tally.stats())[0] == 3


def test_a_driver_speaks_until_its_component_ends() -> None:
    wire, running, tally = Wire(), threading.Event(), BoltTally(BOLT)
    running.set()
    stats = DriverStats("words.split", wire.publisher, tally.stats, running.is_set)
    stats.start()
    eventually(lambda: len(wire.records) >= 2, "two records")
    tally.add(written(rows=3, tuples=3, emitted=3, acked=3))
    running.clear()
    eventually(lambda: wire.records[-1].ended, "the last record")
    assert wire.records[-1].stats["executed"] == 3
    said = len(wire.records)
    stats.end()
    assert len(wire.records) == said, "it is said once that this is the end"
    assert [record.ended for record in wire.records] == [False] * (said - 1) + [True]


def test_whatever_goes_wrong_is_said_and_passes(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> bool:
        raise OSError("Java is gone")

    stats = DriverStats("words.split", Wire().publisher, BoltTally(BOLT).stats, broken)
    with caplog.at_level(logging.WARNING):
        stats.start()
        eventually(lambda: caplog.records, "what went wrong")
        stats.end()
    assert "will not show words.split: Java is gone" in caplog.text


def test_clients_that_cannot_be_made_are_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    kafka = {"bootstrap.servers": "localhost:1", "no.such.thing": 1}
    stats = driver_stats(kafka, "words", "split", dict, lambda: True)
    with caplog.at_level(logging.WARNING):
        stats.start()
        eventually(lambda: caplog.records, "what went wrong")
        stats.end()
    assert "no.such.thing" in caplog.text
