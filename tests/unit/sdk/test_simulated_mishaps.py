"""Random faults on a simulated cluster whose bolts raise, hold inputs and fail to write, with hooks that raise."""

import json
import random
from collections.abc import Sequence
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
    KafkaSpout,
    OutputCollector,
    TaskContext,
    TaskHook,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.records import Record
from spout_sdk.testing import NotIdleError, SimulatedCluster
from tests.chaos.arena import PARTS
from tests.chaos.checks import Deliveries, disagreements, whole_attempts
from tests.components import Sink
from tests.packs import tuples_in
from tests.seeds import each_seed
from tuple_tree.manifest import Guarantee
from tuple_tree.names import tuples_topic

MESSAGES = 30
TIMEOUTS: dict[Guarantee, float] = {"at_least_once": 5, "exactly_once": 25}
STREAM = declare({"number": int, "part": int})


class InjectedError(Exception):
    pass


class Chance:
    """The calls that raise in a run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.attempts = 0

    def raise_rarely(self) -> None:
        if self.random.random() < 0.015:
            raise InjectedError


class Split(AsyncBolt):
    streams = (STREAM,)

    def __init__(self, chance: Chance) -> None:
        self.chance = chance

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        for part in range(PARTS):
            collector.emit((tuple_["number"], part))
        self.chance.raise_rarely()


class Gather(Bolt):
    """Holds inputs until there are some, or a second has passed; raises for some each time that they are read."""

    tick_interval = 1.0
    streams = (STREAM,)

    def __init__(self, chance: Chance) -> None:
        self.most = chance.random.randrange(2, 9)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.held: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        if not tuple_.is_tick:
            if tuple_.roots[0] % 50 == 0:
                raise InjectedError
            self.held.append(tuple_)
        if not (tuple_.is_tick or len(self.held) >= self.most):
            return
        while self.held:
            # A hook that raises leaves the others held.
            each = self.held.pop()
            self.collector.emit(each.values, anchors=each)
            self.collector.ack(each)


class Write(Bolt):
    """Writes two records for each input, and sometimes one that cannot be delivered."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        chance = self.chance.random
        self.chance.attempts += 1
        undeliverable = chance.random() < 0.2
        number, part = tuple_.values
        about = {"number": number, "part": part, "attempt": self.chance.attempts, "of": 2 + undeliverable}
        records = [("results", json.dumps({**about, "index": index}).encode()) for index in range(2)]
        if undeliverable:
            other = chance.choice([("missing", b""), ("results", chance.randbytes(1_100_000))])
            records.insert(chance.randrange(1, 3), other)
        for topic, value in records:
            self.collector.write(tuple_, topic, value)


class RaisingHook(TaskHook):
    def __init__(self, chance: Chance) -> None:
        self.chance = chance

    def bolt_ack(self, tuple_: Tuple) -> None:
        self.chance.raise_rarely()

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        self.chance.raise_rarely()


def numbered(record: Record) -> tuple[int]:
    return (record.offset() or 0,)


def builder(guarantee: Guarantee, **settings: Any) -> TopologyBuilder:
    made = TopologyBuilder("faulty_topology", guarantee=guarantee, ack_partitions=2, **settings)
    made.set_spout("numbers", KafkaSpout("source", translate=numbered, streams=(declare({"number": int}),)))
    return made


def faulty_topology(guarantee: Guarantee, chance: Chance) -> Topology:
    timeout = TIMEOUTS[guarantee]
    made = builder(
        guarantee,
        message_timeout=timeout,
        max_tree_age=4 * timeout,
        pack_tuples=chance.random.choice([1, 4, 1_000]),
    )
    made.add_hook(partial(RaisingHook, chance))
    made.set_bolt("split", partial(Split, chance), tasks=2).shuffle_grouping("numbers")
    made.set_bolt("gather", partial(Gather, chance)).shuffle_grouping("split")
    made.set_bolt("write", partial(Write, chance), tasks=2).fields_grouping("gather", "number")
    return made.build()


def stir(cluster: SimulatedCluster, chance: random.Random, tasks: Sequence[tuple[str, int]], kills: bool) -> None:
    """Lets the cluster work for a while; then a task is killed or restarted, or time passes."""
    end = cluster.broker.appended + chance.randrange(40)
    with suppress(NotIdleError):
        cluster.run_until(lambda: cluster.broker.appended >= end)
    component, task = chance.choice(tasks)
    what = chance.choice(["restart", "restart", "advance", *(["kill"] if kills else [])])
    if what == "advance":
        cluster.advance(chance.choice([0.01, 1.5]))
    elif component == "acker":
        cluster.kill_acker()
    else:
        (cluster.kill if what == "kill" else cluster.restart)(component, task)


def deliveries(cluster: SimulatedCluster, source: str, bolt: str) -> Deliveries:
    stream = cluster.topology.manifest.stream(source, "default")
    records = cluster.broker.records(tuples_topic("faulty_topology", bolt))
    return Deliveries(
        (next(iter(each.edges)), each.values[0], -1 if source == "numbers" else each.values[1])
        for each in tuples_in(records, stream)
    )


@pytest.mark.parametrize("guarantee", TIMEOUTS)
def test_what_raises_or_cannot_be_written_is_neither_acked_nor_repeated(guarantee: Guarantee) -> None:
    each_seed(partial(check_mishaps, guarantee))


def check_mishaps(guarantee: Guarantee, seed: int) -> None:
    chance = Chance(seed)
    tasks = [
        ("numbers", 0),
        ("acker", 0),
        ("gather", 0),
        *((bolt, task) for bolt in ("split", "write") for task in (0, 1)),
    ]
    topics = {"source": 1, "results": 1}
    with SimulatedCluster(
        faulty_topology(guarantee, chance), seed=seed, topics=topics, step=TIMEOUTS[guarantee] / 25
    ) as cluster:
        for _ in range(MESSAGES):
            cluster.produce("source", b"")
        for _ in range(12):
            stir(cluster, chance.random, tasks, kills=True)
        for _ in range(200):
            if cluster.uncommitted("numbers")["source[0]"] == 0:
                break
            # Inputs that are held need others, or a time-out.
            cluster.advance(TIMEOUTS[guarantee] / 5)
        written = whole_attempts(json.loads(each.value() or b"") for each in cluster.broker.records("results"))
        assert cluster.uncommitted("numbers") == {"source[0]": 0}
        assert written == {(number, part) for number in range(MESSAGES) for part in range(PARTS)}
        if guarantee == "exactly_once":
            packs = [
                deliveries(cluster, *hop) for hop in (("numbers", "split"), ("split", "gather"), ("gather", "write"))
            ]
            assert disagreements(packs[0], packs[1], splits=True, may_fail=True) == 0
            assert disagreements(packs[1], packs[2], splits=False, may_fail=True) == 0


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
    made = builder("at_most_once", pack_tuples=chance.choice([1, 4, 1_000]))
    made.set_bolt("split", BasicSplit, tasks=2).shuffle_grouping("numbers")
    made.set_bolt("leaf", Sink, tasks=2).fields_grouping("split", "number")
    tasks = [("numbers", 0), *((bolt, task) for bolt in ("split", "leaf") for task in (0, 1))]
    with SimulatedCluster(made.build(), seed=seed) as cluster:
        for _ in range(4):
            for _ in range(MESSAGES):
                cluster.produce("source", b"")
            for _ in range(4):
                stir(cluster, chance, tasks, kills=kills)
        cluster.run_until_idle()
        executed = cluster.executed("leaf")
        assert len({*executed}) == len(executed)
        assert kills or len(executed) == 4 * MESSAGES * PARTS
