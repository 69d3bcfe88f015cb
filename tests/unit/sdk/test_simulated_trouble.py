"""Random kills and pauses on a simulated cluster whose bolts and hooks raise, hold inputs and fail to write."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    Bolt,
    FailTupleError,
    KafkaSpout,
    OutputCollector,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.hooks import TaskHook
from spout_sdk.testing import NotIdleError, SimulatedCluster
from tests.chaos.arena import PARTS
from tests.chaos.checks import Deliveries, disagreements
from tests.components import Sink
from tests.packs import tuples_in
from tests.seeds import each_seed
from tuple_tree.manifest import Guarantee
from tuple_tree.names import tuples_topic

MESSAGES = 30
TIMEOUTS: dict[Guarantee, float] = {"at_least_once": 5, "exactly_once": 25}
STREAM = declare({"number": int, "part": int})
PAIRS = declare({each: {"type": "array", "items": "long"} for each in ("numbers", "parts")})


class Story:
    """Effects outside of the topology, which survive kills, and the calls that raise."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.attempts = 0
        self.processed: dict[int, set[int]] = {number: set() for number in range(MESSAGES)}

    def raise_rarely(self, error: type[Exception] = ZeroDivisionError) -> None:
        if self.chance.random() < 0.015:
            raise error("now and then")


class Numbers(KafkaSpout):
    """Emits the offsets of its messages."""

    def __init__(self, story: Story | None) -> None:
        super().__init__("source", translate=lambda record: (record.offset() or 0,), streams=[declare({"number": int})])
        self.story = story

    def ack(self, message_id: Any) -> None:
        assert self.story is None or self.story.processed[message_id] == set(range(PARTS)), message_id


class Split(AsyncBolt):
    streams = (STREAM,)

    def __init__(self, story: Story) -> None:
        self.story = story

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        for part in range(PARTS):
            collector.emit((tuple_["number"], part))
        self.story.raise_rarely()


class Holding(Bolt):
    def __init__(self, story: Story) -> None:
        self.story = story

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector, self.held = collector, list[Tuple]()
        self.most = self.story.chance.randrange(2, 9)


class Gather(Holding):
    """Holds inputs until there are some, or a second has passed; raises for some each time that they are read."""

    tick_interval = 1.0
    streams = (STREAM,)

    def execute(self, tuple_: Tuple) -> None:
        if not tuple_.is_tick:
            if tuple_.roots[0] % 50 == 0:
                raise ZeroDivisionError
            self.held.append(tuple_)
        while self.held and (tuple_.is_tick or len(self.held) >= self.most):
            # A hook that raises leaves the others held.
            each = self.held.pop()
            self.collector.emit(each.values, anchors=each)
            self.collector.ack(each)


class Pair(Holding):
    """Passes tuples on in pairs, anchored to both; a single one may wait, and so time out."""

    streams = (PAIRS,)

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)
        if len(self.held) == 2 or self.story.chance.random() < 0.3:
            held, self.held = self.held, []
            self.collector.emit(([one["number"] for one in held], [one["part"] for one in held]), anchors=held)
            self.collector.ack_all(held)


class Leaf(BasicBolt):
    def __init__(self, story: Story) -> None:
        self.story = story

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.story.raise_rarely(FailTupleError)
        for number, part in zip(tuple_["numbers"], tuple_["parts"], strict=True):
            self.story.processed[number].add(part)


class Write(Holding):
    """Writes two records for each input, and sometimes one that cannot be delivered."""

    def execute(self, tuple_: Tuple) -> None:
        chance = self.story.chance
        self.story.attempts += 1
        undeliverable = chance.random() < 0.1
        number, part = tuple_.values
        about = {"number": number, "part": part, "attempt": self.story.attempts, "of": 2 + undeliverable}
        records = [("results", json.dumps({**about, "index": index}).encode()) for index in range(2)]
        if undeliverable:
            other = chance.choice([("missing", b""), ("results", chance.randbytes(1_100_000))])
            records.insert(chance.randrange(1, 3), other)
        for topic, value in records:
            self.collector.write(tuple_, topic, value)


class RaisingHook(TaskHook):
    def __init__(self, story: Story) -> None:
        self.story = story

    def bolt_ack(self, tuple_: Tuple) -> None:
        self.story.raise_rarely()

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        self.story.raise_rarely()


def builder(guarantee: Guarantee, story: Story | None, chance: random.Random, **settings: Any) -> TopologyBuilder:
    # With one tuple in a pack, a task dies between two tuples of an input.
    packs = chance.choice([1, 4, 1_000])
    made = TopologyBuilder("trouble", guarantee=guarantee, ack_partitions=2, pack_tuples=packs, **settings)
    made.set_spout("numbers", partial(Numbers, story))
    return made


def tasks_of(*bolts: str) -> list[tuple[str, int]]:
    return [("numbers", 0), *((bolt, task) for bolt in bolts for task in (0, 1))]


def stir(cluster: SimulatedCluster, chance: random.Random, tasks: list[tuple[str, int]], *faults: str) -> None:
    """Lets the cluster work for a while; then a task is killed, paused or restarted, or time passes."""
    end = cluster.broker.appended + chance.randrange(60)
    with suppress(NotIdleError):
        cluster.run_until(lambda: cluster.broker.appended >= end)
    component, task = chance.choice(tasks)
    match chance.choice(["restart", "advance", *faults]):
        case "advance":
            cluster.advance(chance.choice([0.01, 1.5]))
        case "pause":
            paused = chance.choice([component, "acker"])
            cluster.pause(paused)
            cluster.advance(chance.choice([0.1, 0.6, 2.4]) * cluster.topology.manifest.spouts[0].timeout_ms / 1000)
            cluster.resume(paused)
        case "kill acker":
            cluster.kill_acker()
        case "kill":
            cluster.kill(component, task)
        case _:
            cluster.restart(component, task)


@pytest.mark.parametrize("guarantee", TIMEOUTS)
def test_every_kill_leads_to_a_replay_at_worst(guarantee: Guarantee) -> None:
    """A tuple that raises or cannot be written is not acked either, and with exactly once nothing is repeated."""
    each_seed(partial(check_run, guarantee))


def check_run(guarantee: Guarantee, seed: int) -> None:
    story, timeout = Story(seed), TIMEOUTS[guarantee]
    settings = {"message_timeout": timeout, "max_tree_age": 4 * timeout, "max_spout_pending": 20}
    made = builder(guarantee, story, story.chance, **settings)
    made.add_hook(partial(RaisingHook, story))
    made.set_bolt("split", partial(Split, story), tasks=2).shuffle_grouping("numbers")
    made.set_bolt("gather", partial(Gather, story), tasks=2).shuffle_grouping("split")
    made.set_bolt("write", partial(Write, story), tasks=2).fields_grouping("gather", "number")
    made.set_bolt("pair", partial(Pair, story), tasks=2).shuffle_grouping("split")
    made.set_bolt("leaf", partial(Leaf, story), tasks=2).shuffle_grouping("pair")
    tasks = tasks_of("split", "gather", "write", "pair", "leaf")
    topics = {"source": 1, "results": 1}
    with SimulatedCluster(made.build(), seed=seed, topics=topics, step=timeout / 25) as cluster:
        for _ in range(MESSAGES):
            cluster.produce("source", b"")
        for _ in range(12):
            stir(cluster, story.chance, tasks, "kill", "kill", "kill acker", "pause")
        for _ in range(600):
            if cluster.uncommitted("numbers")["source[0]"] == 0:
                break
            # Inputs that are held need others, or a time-out.
            cluster.advance(timeout / 5)
        written = whole_attempts(json.loads(each.value() or b"") for each in cluster.broker.records("results"))
        assert cluster.uncommitted("numbers") == {"source[0]": 0}
        assert written == {(number, part) for number in range(MESSAGES) for part in range(PARTS)}
        if guarantee == "exactly_once":
            hops = [
                deliveries(cluster, *hop) for hop in (("numbers", "split"), ("split", "gather"), ("gather", "write"))
            ]
            assert disagreements(hops[0], hops[1], splits=True, may_fail=True) == 0
            assert disagreements(hops[1], hops[2], splits=False, may_fail=True) == 0


def whole_attempts(records: Iterable[Mapping[str, int]]) -> set[tuple[int, int]]:
    """Number and part of each input for which an attempt has written all its records."""
    of_attempts: defaultdict[tuple[int, int, int, int], set[int]] = defaultdict(set)
    for each in records:
        of_attempts[each["number"], each["part"], each["attempt"], each["of"]].add(each["index"])
    return {(number, part) for (number, part, _, of), indexes in of_attempts.items() if len(indexes) == of}


def deliveries(cluster: SimulatedCluster, source: str, bolt: str) -> Deliveries:
    stream = cluster.topology.manifest.stream(source, "default")
    records = cluster.broker.records(tuples_topic("trouble", bolt))
    return Deliveries(
        (next(iter(each.edges)), each.values[0], -1 if source == "numbers" else each.values[1])
        for each in tuples_in(records, stream)
    )


class BasicSplit(BasicBolt):
    streams = (STREAM,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for part in range(PARTS):
            collector.emit((tuple_["number"], part))


@pytest.mark.parametrize("kills", [False, True])
def test_at_most_once_executes_nothing_twice_and_loses_nothing_by_clean_restarts(kills: bool) -> None:
    each_seed(partial(check_at_most_once, kills))


def check_at_most_once(kills: bool, seed: int) -> None:
    chance = random.Random(seed)
    made = builder("at_most_once", None, chance)
    made.set_bolt("split", BasicSplit, tasks=2).shuffle_grouping("numbers")
    made.set_bolt("leaf", Sink, tasks=2).fields_grouping("split", "number")
    with SimulatedCluster(made.build(), seed=seed) as cluster:
        for _ in range(4):
            for _ in range(MESSAGES):
                cluster.produce("source", b"")
            for _ in range(4):
                stir(cluster, chance, tasks_of("split", "leaf"), *(["kill"] if kills else []))
        cluster.run_until_idle()
        executed = cluster.executed("leaf")
        assert len({*executed}) == len(executed)
        assert kills or len(executed) == 4 * MESSAGES * PARTS
