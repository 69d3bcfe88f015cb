"""Random faults on a simulated cluster: every acked message was processed, and every message is acked."""

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    FailTupleError,
    Failure,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.testing import NotIdleError, SimulatedCluster
from tests.seeds import each_seed
from tuple_tree.manifest import Guarantee

MESSAGES = 60
LEAVES = 3
BOLTS = ("branch", "pair", "leaf")


class Story:
    """Effects outside of the topology, which survive kills."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.waiting = list(range(MESSAGES))
        self.open: set[int] = set()
        self.processed: dict[int, set[int]] = {number: set() for number in range(MESSAGES)}
        self.acked: set[int] = set()


class Numbers(Spout):
    """Emits each number until it is acked, also numbers that a killed predecessor had emitted."""

    streams = (declare({"number": int}),)

    def __init__(self, story: Story) -> None:
        self.story = story

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.story.waiting += sorted(self.story.open)
        self.story.open.clear()

    def next_tuple(self) -> None:
        if self.story.waiting:
            number = self.story.waiting.pop()
            self.story.open.add(number)
            self.collector.emit((number,), message_id=number)

    def ack(self, message_id: Any) -> None:
        assert self.story.processed[message_id] == set(range(LEAVES)), message_id
        self.story.acked.add(message_id)
        self.story.open.discard(message_id)

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.story.open.discard(message_id)
        self.story.waiting.append(message_id)


class Branch(BasicBolt):
    """Emits a tuple for each leaf, and fails sometimes."""

    streams = (declare({"number": int, "leaf": int}),)

    def __init__(self, story: Story) -> None:
        self.story = story

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for leaf in range(LEAVES):
            if self.story.chance.random() < 0.02:
                raise FailTupleError("now and then")
            collector.emit((tuple_["number"], leaf))


class Pair(Bolt):
    """Passes tuples on in pairs, anchored to both; a single one may wait, and so time out."""

    streams = (declare({"numbers": {"type": "array", "items": "long"}, "leaves": {"type": "array", "items": "long"}}),)

    def __init__(self, story: Story) -> None:
        self.story = story

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.held: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)
        if len(self.held) == 2 or self.story.chance.random() < 0.3:
            self.collector.emit(
                ([one["number"] for one in self.held], [one["leaf"] for one in self.held]), anchors=self.held
            )
            self.collector.ack_all(self.held)
            self.held.clear()


class Leaf(BasicBolt):
    def __init__(self, story: Story) -> None:
        self.story = story

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for number, leaf in zip(tuple_["numbers"], tuple_["leaves"], strict=True):
            self.story.processed[number].add(leaf)


TIMEOUTS: dict[Guarantee, float] = {"at_least_once": 5, "exactly_once": 25}
"""Seconds; the message timeouts."""


def topology(story: Story, guarantee: Guarantee) -> Topology:
    timeout = TIMEOUTS[guarantee]
    settings: dict[str, Any] = {"message_timeout": timeout, "max_tree_age": 4 * timeout, "max_spout_pending": 20}
    # A task dies between two records.
    pack_tuples = story.chance.choice([1, 4, 1_000])
    builder = TopologyBuilder("faults", guarantee=guarantee, ack_partitions=3, pack_tuples=pack_tuples, **settings)
    builder.set_spout("numbers", partial(Numbers, story))
    builder.set_bolt("branch", partial(Branch, story), tasks=2).shuffle_grouping("numbers")
    builder.set_bolt("pair", partial(Pair, story), tasks=2).shuffle_grouping("branch")
    builder.set_bolt("leaf", partial(Leaf, story), tasks=2).shuffle_grouping("pair")
    return builder.build()


def random_faults(cluster: SimulatedCluster, chance: random.Random, timeout: float) -> list[Callable[[], None]]:
    def pause() -> None:
        component = chance.choice(["numbers", "branch", "pair", "leaf", "acker"])
        cluster.pause(component)
        cluster.advance(timeout * chance.choice([0.02, 0.6, 2.4]))
        cluster.resume(component)

    return [
        pause,
        cluster.kill_acker,
        lambda: cluster.kill("numbers"),
        *[partial(how, bolt, task) for how in (cluster.kill, cluster.restart) for bolt in BOLTS for task in range(2)],
        lambda: cluster.advance(0.001 + chance.random()),
        lambda: cluster.advance(1.4 * timeout),
    ]


@pytest.mark.parametrize("guarantee", TIMEOUTS)
def test_every_kill_leads_to_a_replay_at_worst(guarantee: Guarantee) -> None:
    each_seed(partial(check_run, guarantee))


def check_run(guarantee: Guarantee, seed: int) -> None:
    chance = random.Random(seed)
    story = Story(chance)
    with SimulatedCluster(topology(story, guarantee), seed=seed, step=TIMEOUTS[guarantee] / 50) as cluster:
        broker = cluster.broker
        for _ in range(12):
            end = broker.appended + chance.randrange(60)
            with suppress(NotIdleError):
                cluster.run_until(lambda end=end: broker.appended >= end)  # type: ignore[misc]
            chance.choice(random_faults(cluster, chance, TIMEOUTS[guarantee]))()
        for _ in range(200):
            if len(story.acked) == MESSAGES:
                break
            cluster.advance(TIMEOUTS[guarantee] / 5)
        assert len(story.acked) == MESSAGES
