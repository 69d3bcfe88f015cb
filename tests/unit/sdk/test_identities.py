"""Identities of tuples on the way to a state: the same in each attempt, whatever tasks and packs they come through."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spout_sdk import (
    ArrowCollector,
    AsyncCollector,
    BasicCollector,
    KafkaSpout,
    Spout,
    TaskContext,
    TopologyBuilder,
    Tuple,
    WindowedBolt,
    declare,
    tumbling,
)
from spout_sdk.api.topology import BoltOptions
from tests.components import Sink
from tests.unit.sdk.identity_rig import (
    KINDS,
    Received,
    Run,
    Split,
    SplitAsync,
    SplitBatches,
    SplitByHand,
    SplitColumns,
    diamond,
    emits,
    with_state,
)
from tests.unit.sdk.memory import made
from tests.unit.sdk.memory_source import MemoryTopics
from tests.waiting import eventually
from tuple_tree import packs
from tuple_tree.identities import NO_POSITION
from tuple_tree.manifest import Guarantee

SECOND_SPOUT = 1 << 52
_LINES = st.lists(st.text("ab ", max_size=9), min_size=1, max_size=6)


def topics(*lines: str) -> MemoryTopics:
    filled = MemoryTopics(source=1)
    for offset, line in enumerate(lines):
        filled.add("source", 0, offset, line.encode())
    return filled


def attempt(lines: list[str], split: Any = Split, **options: Any) -> list[Received]:
    run = Run(diamond(split), topics(*lines), **options)
    found = run.attempt()
    run.crash()
    return sorted(found)


@settings(max_examples=20)
@given(_LINES, st.sampled_from(KINDS), st.integers(2, 9), st.integers(1, 9), st.data())
def test_each_attempt_has_the_same_identities(
    lines: list[str], kind: Any, seed: int, pack_tuples: int, data: st.DataObject
) -> None:
    first = attempt(lines)
    # Each tuple has its own, and it has the position of its message.
    assert max(Counter((each.position, each.path) for each in first).values()) == 1
    assert {each.position - SECOND_SPOUT for each in first} == {*range(len(lines))}
    source = topics(*lines)
    Run(diamond(), source, pack_tuples=4).emit()  # an owner of the source, whose attempts are over
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(packs, "MAX_BYTES", data.draw(st.integers(1, 600)))
        run = Run(diamond(kind, tasks=data.draw(st.integers(1, 3))), source, seed=seed, pack_tuples=pack_tuples)
        run.emit()
        sent = run.sent()
        # Some records are executed, in any order, and then all tasks crash.
        order = data.draw(st.permutations(range(len(sent))))
        for at in order[: data.draw(st.integers(0, len(sent)))]:
            run.execute(sent[at])
        before = run.run()
        run.crash()
        for each in sent:
            run.execute(each)
        again = run.run()
        run.crash()
    assert sorted(again) == first
    assert {*before} <= {*first}


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_bolts_number_what_they_emit_alike(kind: Any) -> None:
    lines = ["to be or not to be", "a", "that is", ""]
    assert attempt(lines, kind) == attempt(lines)


@pytest.mark.parametrize(
    ("guarantee", "mode"), [("at_most_once", None), ("at_least_once", "at_most_once"), ("at_least_once", "own")]
)
def test_nothing_has_identities_that_is_not_replayed_by_position(guarantee: Guarantee, mode: Any) -> None:
    class Own(Spout):
        streams = (declare({"value": str}),)

        def open(self, context: TaskContext, collector: Any) -> None:
            collector.emit(("a",), message_id=1)

        def next_tuple(self) -> None:
            """Has emitted all."""

    builder = TopologyBuilder("t", guarantee=guarantee)
    builder.set_spout("lines", Own if mode == "own" else KafkaSpout("source", mode=mode))
    builder.set_bolt("count", Sink).fields_grouping("lines", "value")
    run = Run(with_state(builder.build(), "count"), topics("a"))
    assert [(each.values, each.position) for each in run.attempt()] == [(("a",), NO_POSITION)]
    assert run.identified() == set()


class Flaky:
    """Raises, at the first execution of an input, when it has emitted for it."""

    seen: set[str]

    def raises(self, line: str) -> None:
        self.seen = getattr(self, "seen", set())
        if line not in self.seen:
            self.seen.add(line)
            raise ConnectionError("no answer")


class FlakyBasic(Flaky, Split):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        super().execute(tuple_, collector)
        self.raises(tuple_["value"])


class FlakyByHand(Flaky, SplitByHand):
    def execute(self, tuple_: Tuple) -> None:
        if tuple_["value"] not in getattr(self, "seen", ()):
            self.collector.emit(("early",), anchors=tuple_)
            # It may ask for a retry itself, and emit after that.
            self.collector.retry(tuple_)
            self.collector.emit(("late",), anchors=tuple_)
            self.raises(tuple_["value"])
        self.collector.emit(("early",), anchors=tuple_)
        self.collector.emit(("late",), anchors=tuple_)
        self.collector.ack(tuple_)


class FlakyBatches(Flaky, SplitBatches):
    def execute_batch(self, tuples: Any) -> None:
        if (lines := str([tuple_["value"] for tuple_ in tuples])) not in getattr(self, "seen", ()):
            for number in range(2):
                for tuple_ in tuples:
                    self.collector.emit(*emits(tuple_)[number][:1], anchors=tuple_)
            self.raises(lines)
        super().execute_batch(tuples)


class FlakyAsync(Flaky, SplitAsync):
    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        await super().execute_async(tuple_, collector)
        if tuple_["value"] not in getattr(self, "seen", ()):
            collector.emit((1, 2, 3))  # refused, after the others are emitted
        self.seen = {*getattr(self, "seen", ()), tuple_["value"]}


class FlakyColumns(Flaky, SplitColumns):
    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        if (lines := str(batch.column(0).to_pylist())) not in getattr(self, "seen", ()):
            super().execute_batch(batch, _WithoutAck(collector))  # type: ignore[arg-type]
            self.raises(lines)
        super().execute_batch(batch, collector)


class _WithoutAck:
    def __init__(self, collector: ArrowCollector) -> None:
        self.emit = collector.emit

    def ack(self) -> None:
        """Is left out."""


@pytest.mark.parametrize("kind", [FlakyBasic, FlakyByHand, FlakyBatches, FlakyAsync, FlakyColumns])
def test_a_retried_input_emits_the_same_identities(kind: Any) -> None:
    topology = diamond(kind)
    options = BoltOptions(on_exception="retry")
    run = Run(replace(topology, options={"split": options}), topics("to be or", "not to be"))
    found = run.attempt()
    for _ in range(4):
        run.bench.clock.advance(60)
        for task in [*run.tasks.values()]:
            task.execute_retries(run.bench.clock(), run.bench.clock() + 1, others_wait=False)
            task.flush()
        found += run.run()
    run.crash()
    assert all(not task.retrying for task in run.tasks.values())
    # What was emitted by both executions has one identity, and each identity is of one tuple.
    executions = Counter(each for each in found if each.source != "pass/default")
    assert max(executions.values()) > 1
    assert len({(each.position, each.path) for each in executions}) == len(executions)


def test_windows_emit_without_identities() -> None:
    class Windows(WindowedBolt):
        streams = Split.streams
        window = tumbling(count=1)

        def execute_window(self, window: Any) -> None:
            self.collector.emit(("a",))
            self.collector.emit(("a",), anchors=window.tuples[0])

    run = Run(diamond(Windows), topics("a", "b"))
    of_windows = [each for each in run.attempt() if each.source == "split/default"]
    assert [each.position for each in of_windows] == [NO_POSITION] * 4
    assert ("split/default", "count") not in run.identified()


def test_coroutines_may_end_in_any_order() -> None:
    class Waits(SplitAsync):
        async def prepare_async(self, context: TaskContext) -> None:
            self.loop = asyncio.get_running_loop()
            self.waiting: dict[str, asyncio.Future[None]] = {}

        async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
            self.waiting[tuple_["value"]] = self.loop.create_future()
            await self.waiting[tuple_["value"]]
            await super().execute_async(tuple_, collector)

    lines = ["to be or", "not to be", "that is"]
    bolts: list[Waits] = []
    run = Run(diamond(made(bolts, Waits), tasks=1), topics(*lines))
    # With Kafka's settings, so that it really works on several at a time.
    run.bench.environment = replace(run.bench.environment, kafka={"bootstrap.servers": "-"})
    run.emit()
    found = run.run()
    bolt, adapter = bolts[-1], run.task("split").adapter
    eventually(lambda: len(bolt.waiting) == len(lines), "the coroutines to begin")
    for line in reversed(lines):
        bolt.loop.call_soon_threadsafe(bolt.waiting[line].set_result, None)
        adapter.wait(30)
    assert not adapter.running_inputs
    found += run.run()
    run.crash()
    assert sorted(found) == attempt(lines)
