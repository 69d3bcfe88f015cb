"""Processes that are killed at each step, stopped in order, and suspended."""

from collections.abc import Iterator, Sequence

from tests.contract.bolts import line
from tests.contract.lives import Step
from tests.contract.scenario import (
    REPLAYING,
    Do,
    Part,
    Scenario,
    Times,
    dies,
    feed,
    feed_some,
    killed,
    paused,
    restarted,
    resumed,
    until_ended,
    until_executed,
    until_failed,
)
from tuple_tree.manifest import Guarantee

CHAIN, SPREAD, MIXED = line("basic", "local"), line("basic", "shuffle"), line("basic", "local", "shuffle")
KEEPS: dict[Guarantee, Times] = {
    "at_least_once": "at least once",
    "exactly_once": "once",
    "at_most_once": "at most once",
}
"""How often results are there after kills, unless messages are emitted again."""
TIMEOUTS: dict[Guarantee, float] = {"at_least_once": 3, "exactly_once": 25, "at_most_once": 3}

SPLIT: Sequence[Step] = ("executes", "has emitted", "sends tuples", "sends acks", "commits", "has committed")
END: Sequence[Step] = ("executes", "writes a record", "sends acks", "commits", "has committed")
HEAD: Sequence[Step] = ("executes", "has emitted", "writes a record", "writes an outcome", "commits", "has committed")
SPOUT: Sequence[Step] = ("sends tuples", "sends acks", "writes an outcome", "commits", "has committed")
ACKER: Sequence[Step] = ("sends notices", "commits", "has committed")
LOSING: Sequence[Step] = ("executes", "has emitted", "sends tuples")


def scenario(name: str, bolts: Sequence[Part], happens: Sequence[Do], guarantee: Guarantee, **rest: object) -> Scenario:
    settings = {"message_timeout": TIMEOUTS[guarantee]}
    given = {"times": KEEPS[guarantee], "settings": settings, **rest}
    return Scenario(f"{name}, {guarantee}", bolts, happens, guarantee=guarantee, **given)  # type: ignore[arg-type]


def at_steps() -> Iterator[Scenario]:
    for bolts, component, steps, guarantees in (
        (SPREAD, "split", SPLIT, REPLAYING),
        (SPREAD, "end", END, REPLAYING),
        (CHAIN, "messages", HEAD, REPLAYING),
        (MIXED, "messages", SPOUT, ("at_least_once",)),
        (SPREAD, "acker", ACKER, ("at_least_once",)),
        (SPREAD, "split", LOSING, ("at_most_once",)),
    ):
        for step in steps:
            for guarantee in guarantees:
                name = f"{'chain' if bolts is CHAIN else component} {step}"
                yield scenario(name, bolts, (dies(component, step), feed), guarantee, deaths=1)


def in_the_middle() -> Iterator[Scenario]:
    two = feed_some(2)
    for guarantee in REPLAYING:
        yield scenario("restarts", SPREAD, (two, restarted("split"), restarted("end"), feed), guarantee, times="once")
        yield scenario("restart of a chain", CHAIN, (two, restarted("messages"), feed), guarantee, times="once")
        yield scenario(
            "restart of the spout",
            MIXED,
            (two, until_ended(2), restarted("messages"), restarted("acker"), feed),
            guarantee,
            times="once",
        )
        yield scenario(
            "all are killed",
            SPREAD,
            (two, until_executed("end", 3), *map(killed, ("split", "end", "acker")), feed),
            guarantee,
            deaths=3,
        )
        yield scenario(
            "trees time out",
            SPREAD,
            (paused("end"), feed, until_failed(2), resumed("end")),
            guarantee,
            times="at least once",
        )
        yield scenario(
            "a slow acker",
            SPREAD,
            (paused("acker"), feed, until_executed("end", 8), resumed("acker")),
            guarantee,
            times="once",
        )
    yield scenario("restarts", SPREAD, (two, restarted("split"), restarted("end"), feed), "at_most_once", times="once")


CRASHES = [*at_steps(), *in_the_middle()]
