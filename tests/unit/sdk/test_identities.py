"""Identities of tuples on the way to a state: the same in each attempt, whatever tasks and packs they come through."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from random import Random
from typing import Any, NamedTuple

import pytest

from spout_sdk import AsyncCollector, KafkaSpout, RetryPolicy, Spout, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.state import StatefulBolt
from spout_sdk.testing import SimulatedCluster
from tests.components import ByHand, InBatches, Sink, kinds, passing
from tests.packs import tuples_of
from tests.seeds import each_seed
from tuple_tree.identities import IDENTITIES_HEADER, NO_POSITION, IdentityColumns
from tuple_tree.manifest import Guarantee

WORD, LENGTH = declare({"word": str}), declare({"word": str, "length": int}, name="lengths")
LINE = declare({"value": str})
LINES = ["to be or", "not to be", "", "a aa a aa", "that is"]


class Trouble:
    """All that happens to the executions of a run."""

    chance = Random(0)
    failing = 0.0
    executed: set[str] = set()

    @classmethod
    def may_come(cls) -> None:
        if cls.chance.random() < cls.failing:
            raise ConnectionError("no answer")

    @classmethod
    def is_first(cls, line: str) -> bool:
        """Whether a line is executed for the first time."""
        is_first = line not in cls.executed
        cls.executed.add(line)
        return is_first and cls.failing > 0


def emits(line: Sequence[Any], _context: TaskContext | None = None) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Each word, and then the length of each word of several letters; it may raise after some of them."""
    words = line[0].split()
    yield from [((word,), "default") for word in words]
    Trouble.may_come()
    yield from [((word, len(word)), "lengths") for word in words if len(word) > 1]
    if Trouble.is_first(line[0]):
        raise ConnectionError("no answer")


class SplitInTurns(InBatches):
    """Emits for the last tuple first, and in turns for all of them."""

    streams = (WORD, LENGTH)

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        for each in zip_longest(*(emits(tuple_.values) for tuple_ in reversed(tuples))):
            for tuple_, emit in zip(reversed(tuples), each, strict=True):
                if emit is not None:
                    self.collector.emit(emit[0], anchors=tuple_, stream=emit[1])
        self.collector.ack_all(tuples)


class AsksForRetries(ByHand):
    """Asks for a retry itself, and emits after that, and raises."""

    streams = (WORD, LENGTH)

    def execute(self, tuple_: Tuple) -> None:
        asks = Trouble.is_first(tuple_["value"])
        if asks:
            self.collector.retry(tuple_)
        for values, stream in emits(tuple_.values):
            self.collector.emit(values, anchors=tuple_, stream=stream)
        if asks:
            raise ConnectionError("no answer")
        self.collector.ack(tuple_)


class Refused(kinds(emits, WORD, LENGTH).coroutines):  # type: ignore[misc]
    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        await super().execute_async(tuple_, collector)
        if Trouble.is_first(tuple_["value"] + " "):
            collector.emit((1, 2, 3))  # refused, and the others are not sent


SPLIT = kinds(emits, WORD, LENGTH)._replace(batches=SplitInTurns, by_hand=AsksForRetries, coroutines=Refused)


class Count(StatefulBolt):
    state = int

    def update(self, value: int, tuple_: Tuple) -> int:
        return value + 1


class Received(NamedTuple):
    """A tuple in an inbox, and its identity."""

    source: str
    values: tuple[Any, ...]
    position: int
    path: int


def received(cluster: SimulatedCluster, bolt: str) -> list[Received]:
    """The tuples of an inbox."""
    found = []
    for record in cluster.records(f"t.tuples.{bolt}"):
        headers: Any = record.headers()
        source, _, stream = dict(headers)["source"].decode().partition("/")
        tuples = tuples_of(record.value() or b"", headers, cluster.topology.manifest.stream(source, stream))
        columns = IdentityColumns.read(dict(headers).get(IDENTITIES_HEADER), len(tuples))
        for (values, _), position, path in zip(tuples, columns.positions.tolist(), columns.paths.tolist(), strict=True):
            found.append(Received(f"{source}/{stream}", tuple(values), position, path))
    return found


def run(seed: int, split: Any = SPLIT.basic, *, failing: float = 0.0) -> list[Received]:
    """All that a state receives by two ways, of lines whose executions raise, and whose tasks are killed."""
    Trouble.chance, Trouble.failing = chance, _ = Random(seed), failing
    Trouble.executed.clear()
    builder = TopologyBuilder("t", ack_partitions=2, message_timeout=3, pack_tuples=chance.choice((1, 2, 1_000)))
    builder.set_spout("lines", KafkaSpout("source", streams=LINE, retry=RetryPolicy(0.1, 0.1, 0.1)))
    tasks = chance.randint(1, 3)
    builder.set_bolt("split", split, tasks=tasks, on_exception=chance.choice(("fail", "retry"))).shuffle_grouping(
        "lines"
    )
    builder.set_bolt("pass", passing(LINE), tasks=tasks).shuffle_grouping("lines")
    count = builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
    count.fields_grouping("split", "word", stream="lengths").fields_grouping("pass", "value")
    see = builder.set_bolt("see", Sink).shuffle_grouping("lines").shuffle_grouping("split")
    see.shuffle_grouping("split", "lengths")
    with SimulatedCluster(builder.build(), seed=seed, step=0.5) as cluster:
        for line in LINES:
            cluster.produce("source", line)
            if failing:
                cluster.advance(0.5)
                cluster.kill(*chance.choice((("lines", 0), ("split", 0), ("pass", 0))))
        cluster.advance(2)
        Trouble.failing = 0.0
        cluster.advance(20)
        assert cluster.uncommitted("lines") == {"source[0]": 0}
        assert all(each.position == NO_POSITION for each in received(cluster, "see")), "no state follows"
        return received(cluster, "count")


@cache
def undisturbed() -> list[Received]:
    return run(0)


@pytest.mark.parametrize("kind", SPLIT, ids=SPLIT._fields)
def test_each_attempt_has_the_same_identities(kind: Any) -> None:
    first = undisturbed()
    assert len({(each.source, each.position, each.path) for each in first}) == len(first), "each tuple has its own"
    assert len({each.position for each in first}) == len(LINES)

    def check(seed: int) -> None:
        again = run(seed, kind, failing=0.5)
        assert {*again} == {*first}
        # A coroutine that raises has sent nothing, so a retry in the task emits nothing again.
        assert len(again) > len(first) or kind is SPLIT.coroutines, "some are emitted again"

    each_seed(check)


@pytest.mark.parametrize(("guarantee", "is_own"), [("at_most_once", False), ("at_least_once", True)])
def test_nothing_has_identities_that_is_not_replayed_by_position(guarantee: Guarantee, is_own: bool) -> None:
    class Own(Spout):
        streams = (LINE,)

        def open(self, context: TaskContext, collector: Any) -> None:
            collector.emit(("a",), message_id=1)

        def next_tuple(self) -> None: ...

    builder = TopologyBuilder("t", guarantee=guarantee)
    builder.set_spout("lines", Own if is_own else KafkaSpout("source", streams=LINE))
    builder.set_bolt("count", Count).fields_grouping("lines", "value")
    with SimulatedCluster(builder.build(), topics={"source": 1}) as cluster:
        cluster.produce("source", "a")
        cluster.run_until_idle()
        assert [each.position for each in received(cluster, "count")] == [NO_POSITION]
        assert all(name != IDENTITIES_HEADER for name, _ in cluster.records("t.tuples.count")[0].headers() or ())
