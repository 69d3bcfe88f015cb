"""Identities of tuples on the way to a state: the same in each attempt, whatever tasks and packs they come through."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spout_sdk import AsyncCollector, KafkaSpout, Spout, TaskContext, TopologyBuilder, Tuple
from spout_sdk.api.topology import BoltOptions
from tests.components import ByHand, Sink, kinds
from tests.unit.sdk.identity_rig import LENGTH, SPLIT, WORD, Received, Run, diamond, emits, with_state
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


def attempt(lines: list[str], split: Any = SPLIT.basic, **options: Any) -> list[Received]:
    run = Run(diamond(split), topics(*lines), **options)
    found = run.attempt()
    run.crash()
    return sorted(found)


@settings(max_examples=8)
@given(_LINES, st.sampled_from(SPLIT), st.integers(2, 9), st.integers(1, 9), st.data())
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


@pytest.mark.parametrize(("guarantee", "is_own"), [("at_most_once", False), ("at_least_once", True)])
def test_nothing_has_identities_that_is_not_replayed_by_position(guarantee: Guarantee, is_own: bool) -> None:
    class Own(Spout):
        streams = (WORD,)

        def open(self, context: TaskContext, collector: Any) -> None:
            collector.emit(("a",), message_id=1)

        def next_tuple(self) -> None: ...

    builder = TopologyBuilder("t", guarantee=guarantee)
    builder.set_spout("lines", Own if is_own else KafkaSpout("source"))
    builder.set_bolt("count", Sink).fields_grouping("lines", "word" if is_own else "value")
    run = Run(with_state(builder.build(), "count"), topics("a"))
    assert [(each.values, each.position) for each in run.attempt()] == [(("a",), NO_POSITION)]
    assert run.identified() == set()


class FlakyByHand(ByHand):
    """Asks for a retry itself, emits after that, and raises."""

    streams = (WORD, LENGTH)

    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit(("early",), anchors=tuple_)
        if is_first(tuple_["value"]):
            self.collector.retry(tuple_)
            self.collector.emit(("late",), anchors=tuple_)
            raise ConnectionError("no answer")
        self.collector.emit(("late",), anchors=tuple_)
        self.collector.ack(tuple_)


class FlakyAsync(SPLIT.coroutines):  # type: ignore[name-defined, misc]
    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        await super().execute_async(tuple_, collector)
        if is_first(tuple_["value"]):
            collector.emit((1, 2, 3))  # refused, and the others are not sent


def flaky(line: Any, _context: TaskContext) -> Any:
    yield from emits(line)
    if is_first(line[0]):
        raise ConnectionError("no answer")


executed: set[str] = set()


def is_first(line: str) -> bool:
    """Whether a line is executed for the first time."""
    if line in executed:
        return False
    executed.add(line)
    return True


FLAKY = kinds(flaky, WORD, LENGTH)._replace(by_hand=FlakyByHand, coroutines=FlakyAsync)


@pytest.mark.parametrize("kind", FLAKY, ids=FLAKY._fields)
def test_a_retried_input_emits_the_same_identities(kind: Any) -> None:
    executed.clear()
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
    assert all(not task.waiting_retries for task in run.tasks.values())
    # What was emitted by both executions has one identity, and each identity is of one tuple.
    executions = Counter(each for each in found if each.source != "pass/default")
    # An `AsyncBolt` sends nothing for an execution that fails.
    assert (max(executions.values()) > 1) == (kind is not FLAKY.coroutines)
    assert len({(each.position, each.path) for each in executions}) == len(executions)


def test_coroutines_may_end_in_any_order() -> None:
    class Waits(SPLIT.coroutines):  # type: ignore[name-defined, misc]
        async def prepare_async(self, context: TaskContext) -> None:
            await super().prepare_async(context)
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
    bolt, adapter = bolts[-1], run.task("split").first.adapter
    eventually(lambda: len(bolt.waiting) == len(lines), "the coroutines to begin")
    for line in reversed(lines):
        bolt.loop.call_soon_threadsafe(bolt.waiting[line].set_result, None)
        adapter.wait(30)
    assert not adapter.running_inputs
    found += run.run()
    run.crash()
    assert sorted(found) == attempt(lines)
