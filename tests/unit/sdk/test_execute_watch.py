"""The watch over calls of `execute` that take long, with a clock that the test moves while a call runs."""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_STORED, Producer

from kafka_clients.client_settings import CLIENT_CLASSES
from spout_sdk import BasicCollector, Tuple
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.runtime.component_runner import ComponentRunner
from spout_sdk.runtime.execute_watch import LONGEST_EXECUTE_MS, ExecuteWatch, Limits
from spout_sdk.runtime.timeout_resets import TimeoutResets
from spout_sdk.testing import MemoryRecord
from tests.packs import under_seed
from tests.unit.sdk.bench import BenchTask, Manual, Split, rig
from tuple_tree.messages import AckBatch, decode_ack_batch

INBOX = "words.tuples.split"
TIMEOUT, TREE_AGE = 30.0, 300.0


class Slow(Manual):
    """Calls what the test sets, as if that took long."""

    during: Callable[[], object] = staticmethod(lambda: None)

    def execute(self, tuple_: Tuple) -> None:
        self.during()
        self.collector.ack(tuple_)


class Ticking(Slow):
    tick_interval = 100.0


class SlowBasic(Split):
    during: Callable[[Tuple], object]

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.during(tuple_)


class Inbox:
    """A reader that has these records."""

    at_once = 100

    def __init__(self, *records: MemoryRecord) -> None:
        self.records = [*records]
        self.ended: dict[tuple[str, int], int] = {}
        self.assigned: list[dict[tuple[str, int], int]] = []

    def __call__(self, _kafka: Any, **named: str) -> "Inbox":
        self.named = named
        return self

    def assign(self, starts: dict[tuple[str, int], int]) -> None:
        self.assigned.append(starts)
        self.ended = dict(starts)

    def poll(self, _seconds: float, *, ignoring: tuple[int, ...]) -> list[MemoryRecord]:
        records, self.records = self.records[: self.at_once], self.records[self.at_once :]
        return records

    def close(self) -> None:
        """Is not kept."""


class Watched:
    """A task of a bolt, and the watch over its process."""

    def __init__(self, bolt: Any = Slow, inbox: Inbox | None = None, execute_s: float = 1_800.0) -> None:
        self.bench, self.of, self.bolt = rig(bolt)
        self.task = self.of.raw
        self.reports: list[tuple[float, str]] = []
        self.ends: list[str] = []
        self.sent: list[tuple[str, int, AckBatch]] = []
        manifest = self.bench.topology.manifest
        producer = SimpleNamespace(produce=self._produce, flush=lambda _seconds: 0)
        kafka = {"bootstrap.servers": "none", CLIENT_CLASSES: {Producer: lambda _settings: producer}}
        self.resets = TimeoutResets(manifest, "split", kafka, lambda n: b"s" * n, inbox) if inbox else None
        self.tasks: dict[int, BoltTask] = {1: self.task}
        self.watch = ExecuteWatch(
            *("split", Limits(TIMEOUT, TREE_AGE, execute_s), self.tasks, self.resets),
            *(lambda *report: self.reports.append(report), self.ends.append, self.bench.cluster.clock),
        )

    def _produce(self, topic: str, value: bytes, _key: None, partition: int, on_delivery: Any) -> None:
        self.sent.append((topic, partition, decode_ack_batch(value)))

    def execute(self, times: int = 1) -> None:
        for _ in range(times):
            self.feed(0xAB)

    def feed(self, *roots: int) -> None:
        """Executes a record with a tuple of each root."""
        self.bench.pack("split", [("a",)] * len(roots), [{root: 1} for root in roots], task=1)
        self.of.flush()

    def look_after(self, *seconds: float) -> None:
        """Looks, with this number of seconds between looks."""
        for each in seconds:
            self.bench.clock.advance(each)
            self.watch.look()

    def resets_of(self, root: int) -> int:
        return sum(root in batch.reset_roots.tolist() for _, _, batch in self.sent)


def test_the_limits_are_those_of_the_manifest_and_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    manifest = rig()[0].topology.manifest
    assert Limits.of(manifest, "split", {}) == Limits(TIMEOUT, TREE_AGE, LONGEST_EXECUTE_MS / 1000)
    assert Limits.of(manifest, "split", {"max.poll.interval.ms": "600000"}).execute == 600
    assert not caplog.records


def test_a_call_beyond_the_message_timeout_is_logged_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.bolt.during = lambda: watched.look_after(1.9, 28, *[0.5] * 540)
    with caplog.at_level(logging.WARNING, "spout_sdk.execute_watch"):
        watched.watch.look()
        watched.execute()
        watched.look_after(60)
    warnings = [record.getMessage() for record in caplog.records]
    seconds = [warning.partition(" for ")[2].partition(",")[0] for warning in warnings]
    assert seconds == ["30 s", "60 s", "120 s", "240 s"]
    for text in (
        f"split/1: one execute has been running for 30 s, longer than the message timeout of 30 s, at {INBOX}[1] ",
        "offset 0 (",
        "test_execute_watch.py:",
        "in execute), roots 00000000000000ab.",
        "AsyncBolt, or raise message_timeout; the process ends after 1800 s (max.poll.interval.ms)",
    ):
        assert text in warnings[0]
    # It is shown from the third second on, and no more once it has returned.
    assert watched.reports[0][0] == pytest.approx(29.9)
    assert f"execute has not returned, at {INBOX}[1] offset 0 (" in watched.reports[0][1]
    assert watched.reports[-1][0] == pytest.approx(1.9 + 28 + 270)


def test_each_call_has_a_time_of_its_own_and_a_tick_is_a_call() -> None:
    watched = Watched(Ticking)
    watched.bolt.during = lambda: watched.look_after(29)
    watched.execute(times=3)
    watched.bench.clock.advance(100)
    watched.of.flush()
    assert [seconds for seconds, _ in watched.reports] == [29, 29, 29, 29]
    assert watched.reports[-1][1].partition(" (")[0] == "execute has not returned, at a tick tuple"


def test_a_process_ends_with_the_reason_when_a_call_exceeds_the_limit() -> None:
    watched = Watched(execute_s=60)
    watched.bolt.during = lambda: watched.look_after(59.9, 0.2)
    watched.execute()
    [why] = watched.ends
    assert why.startswith("split/1: one execute ran for 60 s, longer than max.poll.interval.ms allows (60 s), at ")
    assert f"{INBOX}[1] offset 0" in why


@pytest.mark.parametrize("rows", [1, 64])
def test_the_tuple_of_a_basic_bolt_is_known_among_many(rows: int) -> None:
    watched = Watched(SlowBasic)
    seen: list[tuple[int, Any]] = []
    watched.bolt.during = lambda tuple_: seen.append((tuple_.roots[0], watched.task.running))
    watched.bench.pack("split", [("a",)] * rows, under_seed(range(1, rows + 1)), task=1)
    watched.of.flush()
    assert [(root, running.roots) for root, running in seen] == [(root, (root,)) for root in range(1, rows + 1)]
    assert watched.task.running is None


def waiting(during: Callable[[Watched, Inbox], object]) -> tuple[Watched, Inbox]:
    """A bolt that acked its first record, holds the second in `execute`, and has a third that it did not read."""
    inbox = Inbox()
    watched = Watched(inbox=inbox)
    watched.feed(10)
    elsewhere = Watched().bench
    records = [elsewhere.record("split", ("a",), {root: 1}, task=1) for root in (10, 20, 30)]
    inbox.records = [*records, elsewhere.raw("split", b"", None, task=1)]
    watched.bolt.during = lambda: during(watched, inbox)
    watched.feed(20)
    return watched, inbox


def test_trees_that_wait_are_reset_at_a_third_of_the_message_timeout() -> None:
    def during(watched: Watched, _inbox: Inbox) -> None:
        watched.tasks[0] = BenchTask(watched.bench, "split", 0).raw
        watched.look_after(*[0.5] * 120)

    watched, inbox = waiting(during)
    assert inbox.named == {"group": "words.split", "role": "split"}
    # The task that has read nothing is read from its committed offset.
    assert inbox.assigned == [{(INBOX, 0): OFFSET_STORED, (INBOX, 1): 1}]
    # At 10 s and then every 10 s, the last at 60 s. The first record is settled.
    assert (watched.resets_of(10), watched.resets_of(20), watched.resets_of(30)) == (0, 6, 6)
    assert {(topic, batch.writer, batch.opens) for topic, _, batch in watched.sent} == {
        ("words.acks", "split/resets-73737373", False)
    }
    for partition in range(3):
        batches = [batch for _, at, batch in watched.sent if at == partition]
        assert [batch.sequence for batch in batches] == [*range(len(batches))]
        assert all(int(root) % 3 == partition for batch in batches for root in batch.reset_roots.tolist())
    watched.look_after(1)
    assert inbox.assigned[1:] == [{}]


def test_resets_end_at_the_largest_tree_age(caplog: pytest.LogCaptureFixture) -> None:
    watched, _ = waiting(lambda watched, _inbox: watched.look_after(290, 20, 300))
    assert watched.resets_of(20) == 1
    assert "kept alive until max_tree_age (300 s)" in caplog.messages[0]
    assert "have failed at max_tree_age (300 s) and are replayed: raise the limit" in caplog.messages[1]


def test_what_is_read_later_is_reset_at_once() -> None:
    def during(watched: Watched, inbox: Inbox) -> None:
        first, inbox.records = inbox.records[:2], inbox.records[2:]
        watched.look_after(10)
        inbox.ended.clear()
        assert watched.resets_of(30) == 1
        inbox.records = first
        watched.look_after(10)
        inbox.ended = {(INBOX, 1): 4}
        watched.look_after(0.5, 0.5)

    watched, _ = waiting(during)
    assert (watched.resets_of(20), watched.resets_of(30)) == (2, 3)


def test_records_behind_the_roots_that_are_kept_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.runtime.timeout_resets._MOST_ROOTS", 1)
    monkeypatch.setattr(Inbox, "at_once", 1)
    watched, inbox = waiting(lambda watched, _inbox: watched.look_after(10, 10, 10))
    assert len(inbox.records) == 2, "the first is done, and is not kept"
    assert (watched.resets_of(20), watched.resets_of(30)) == (3, 0)


def test_what_waits_for_coroutines_that_take_long_is_reset_for_as_long_as_they_leave_no_room() -> None:
    """They are not a call: nothing is reported, and the process does not end."""
    inbox = Inbox()
    watched = Watched(Manual, inbox, execute_s=TREE_AGE)
    elsewhere = Watched().bench
    inbox.records = [elsewhere.record("split", ("a",), {root: 1}, task=1) for root in (10, 20)]
    watched.feed(10)
    watched.look_after(TIMEOUT)
    assert not watched.sent
    adapter = watched.task.first.operator
    adapter.busy_since = watched.bench.clock.now
    watched.look_after(*[0.5] * 20, *[TREE_AGE] * 3)
    assert [watched.resets_of(root) for root in (10, 20)] == [1 + 3, 1 + 3]
    watched.bolt.collector.ack(watched.bolt.tuples[0])
    watched.of.flush()
    watched.look_after(TIMEOUT / 3)
    assert [watched.resets_of(root) for root in (10, 20)] == [4, 5]
    assert watched.resets is not None
    assert watched.resets._kept == 1, "what is done is forgotten"
    watched.tasks[0] = BenchTask(watched.bench, "split", 0).raw
    watched.look_after(1)
    assert [*inbox.assigned[-1]] == [(INBOX, 1)], "the other task takes inputs"
    watched.tasks[0].first.operator.busy_since = adapter.busy_since
    watched.look_after(1)
    assert [*inbox.assigned[-1]] == [(INBOX, 1), (INBOX, 0)]
    adapter.busy_since = watched.tasks[0].first.operator.busy_since = None
    watched.look_after(TIMEOUT)
    assert inbox.assigned[-1] == {}
    assert (watched.reports, watched.ends) == ([], [])


def test_why_a_process_ends_is_not_reported_amid_its_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may continue at that moment, and both write to one pipe."""
    ends, held = list[str](), list[bool]()
    monkeypatch.setattr("spout_sdk.runtime.component_runner.end_process", ends.append)
    topology = rig()[0].topology
    kafka = {"bootstrap.servers": "unused:1"}
    runner = ComponentRunner(
        topology, "split", kafka, on_hanging=lambda _why: held.append(runner._runner.reporting.locked())
    )
    runner._end_hanging("execute takes too long")
    assert (ends, held) == (["execute takes too long"], [True])
