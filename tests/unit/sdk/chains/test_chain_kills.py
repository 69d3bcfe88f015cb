"""Chains whose processes are killed at any time: no message is lost; with `exactly_once` no result is there twice."""

import json
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from spout_sdk import KafkaBolt, KafkaSpout, RetryPolicy, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.testing import NotIdleError, SimulatedCluster
from tests.components import ByHand, Emits, kinds
from tests.seeds import each_seed
from tuple_tree.manifest import Guarantee

PART = declare({"number": int, "part": int})
PARTS = 2


class Here:
    """The random generator of a run, and the probability that a call raises."""

    chance: random.Random
    failing: float


def trouble() -> None:
    if Here.chance.random() < Here.failing:
        raise RuntimeError("not now")


def split(values: Any, _context: TaskContext) -> Emits:
    trouble()
    return [((int(values[0]), part), "default") for part in range(PARTS)]


def pass_on(values: Any, _context: TaskContext) -> Emits:
    trouble()
    return [(values, "default")]


class Holding(ByHand):
    """Holds some tuples until the next tuple or a tick."""

    streams = (PART,)
    tick_interval: float | None = 0.3

    def execute(self, tuple_: Tuple) -> None:
        if not tuple_.is_tick:
            trouble()
            self.held.append(tuple_)
        while self.held and (tuple_.is_tick or self.may_go()):
            held = self.held.pop()
            self.emit(held, held)
            self.collector.ack(held)

    def emit(self, tuple_: Tuple, *anchors: Tuple) -> None:
        self.collector.emit((int(tuple_.values[0]), *tuple_.values[1:]), anchors=anchors)

    def may_go(self) -> bool:
        return Here.chance.random() < 0.5


class Early(Holding):
    """Emits for a tuple, and perhaps for another one, before it holds it."""

    def execute(self, tuple_: Tuple) -> None:
        if not tuple_.is_tick:
            self.emit(tuple_, tuple_, *(self.held[-1:] if Here.chance.random() < 0.3 else ()))
            self.held.append(tuple_)
        while self.held and (tuple_.is_tick or self.may_go()):
            self.collector.ack(self.held.pop(Here.chance.randrange(len(self.held))))


SPLIT, PASS = kinds(split, PART).basic, kinds(pass_on, PART)


def topology(guarantee: Guarantee) -> Any:
    chance = Here.chance
    builder = TopologyBuilder("parts", guarantee=guarantee, message_timeout=25, max_spout_pending=20)
    builder.set_spout("messages", KafkaSpout("source", retry=RetryPolicy(delay_period=0.05)), tasks=2)
    options = {"on_exception": "retry"} if chance.random() < 0.5 else {}
    builder.set_bolt("split", SPLIT, **options).local_grouping("messages")  # type: ignore[arg-type]
    source, joins = "split", 0
    for number in range(chance.randrange(4)):
        name, kind = f"step-{number}", chance.choice((PASS.basic, Holding, Early, PASS.coroutines))
        bolt = builder.set_bolt(name, kind, tasks=1, **options)  # type: ignore[arg-type]
        if chance.random() < 0.8 or joins:
            bolt.local_grouping(source)
        else:
            joins += 1
            bolt.shuffle_grouping(source)
        source = name
    builder.set_bolt("publish", lambda: KafkaBolt("results")).local_grouping(source)
    return builder.build()


def published(cluster: SimulatedCluster) -> Counter[tuple[int, int]]:
    records = [json.loads(record.value() or b"") for record in cluster.records("results")]
    return Counter((record["number"], record["part"]) for record in records)


def committed(cluster: SimulatedCluster) -> set[int]:
    """The messages that are done according to the committed offsets of the group."""
    done = set()
    for partition in range(2):
        commit = cluster.broker.committed("parts.messages", "source", partition)
        for offset, record in enumerate(cluster.broker.fetch("source", partition, 0, 10_000)):
            if commit is not None and offset < commit.offset:
                done.add(int(record.value() or b""))
    return done


def run_steps(cluster: SimulatedCluster, steps: int) -> None:
    left = iter(range(steps))
    with suppress(NotIdleError):
        cluster.run_until(lambda: next(left, None) is None)


def run(seed: int, guarantee: Guarantee) -> None:
    Here.chance = chance = random.Random(seed)
    Here.failing = chance.choice((0.0, 0.05))
    made = topology(guarantee)
    is_local = all(bolt.is_chained for bolt in made.manifest.bolts)
    # A killed spout emits tuples again that had left its process, with any delivery guarantee.
    spares_spout = not is_local and chance.random() < 0.5
    names = [each.name for each in made.manifest.components]
    if spares_spout:
        names = [name for name in names if made.manifest.head(name).name != "messages"]
    number = 0
    with SimulatedCluster(made, seed=seed, topics={"source": 2, "results": 1}, step=0.5) as cluster:
        for _ in range(25):
            for _ in range(chance.choice((0, 3, 30))):
                cluster.produce("source", str(number), partition=number % 2)
                number += 1
            match chance.randrange(6):
                case 0:
                    cluster.kill(chance.choice(names))
                case 1:
                    cluster.restart(chance.choice(names))
                case 2:
                    cluster.kill_acker()
                case 3:
                    run_steps(cluster, chance.randrange(40))
                    cluster.kill(chance.choice(names))
                case _:
                    cluster.advance(chance.choice((0.1, 0.7, 1.5)))
            so_far = published(cluster)
            for message in committed(cluster):
                assert all(so_far[message, part] for part in range(PARTS)), f"message {message} is done, and lost"
        Here.failing = 0.0
        cluster.advance(40)
        assert len(committed(cluster)) == number
        found = published(cluster)
        assert found.keys() == {(message, part) for message in range(number) for part in range(PARTS)}
        if guarantee == "exactly_once" and (is_local or spares_spout) and not cluster.stats("messages").failed:
            assert found.total() == len(found), "a result is there twice"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_nothing_is_lost_or_there_twice_whatever_is_killed(guarantee: Guarantee) -> None:
    each_seed(lambda seed: run(seed, guarantee))


class Gated(Holding):
    """Holds all tuples until the gate opens."""

    streams = (declare({"number": int}),)
    tick_interval = None
    is_open = False

    def may_go(self) -> bool:
        return Gated.is_open


def test_what_a_chain_has_held_for_seconds_is_done_with_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill before the notice of the acker arrives must not repeat committed results of these trees."""
    builder = TopologyBuilder("held", guarantee="exactly_once", message_timeout=25)
    builder.set_spout("messages", KafkaSpout("source"))
    builder.set_bolt("gated", Gated).local_grouping("messages")
    builder.set_bolt("publish", lambda: KafkaBolt("results")).local_grouping("gated")
    made = builder.build()
    Here.failing, Here.chance = 0.0, random.Random(1)
    for steps in range(1, 8):
        monkeypatch.setattr(Gated, "is_open", False)
        with SimulatedCluster(made, topics={"source": 1, "results": 1}, step=0.5) as cluster:
            for number in range(5):
                cluster.produce("source", str(number))
            cluster.advance(2.5)
            assert cluster.records("held.acks"), "the acker knows them"
            Gated.is_open = True
            cluster.produce("source", "5")
            run_steps(cluster, steps)
            cluster.kill("messages")
            cluster.advance(40)
            found = Counter(json.loads(record.value() or b"")["number"] for record in cluster.records("results"))
            assert found == dict.fromkeys(range(6), 1)
