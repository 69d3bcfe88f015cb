"""Tuples and messages that fail, are executed or emitted again, and become dead letters."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, get_args

from spout_sdk import FailReason, FailTupleError, Failure, RetryPolicy, RetryTupleError
from tests.contract.bolts import kind, line, too_large
from tests.contract.scenario import REPLAYING, Part, Scenario, Scene, dies, feed, until
from tuple_tree.manifest import Guarantee

LINKS: Final = {"plain": ("shuffle",), "chain": ("local",)}
SOON: Final = RetryPolicy(initial_delay=0.05, delay_period=0.05)
TWICE: Final = RetryPolicy(initial_delay=0.05, delay_period=0.05, max_retries=1)
ALWAYS: Final = 1_000
IN_SPLIT: Final[Mapping[tuple[str, str], int]] = {("split", "d"): 1}
IN_END: Final[Mapping[tuple[str, str], int]] = {("end", "d"): 1}
"""Both are of message 2, the only one with that word."""
EVERY_LINK: Final = {**LINKS, "half": ("local", "shuffle"), "other half": ("shuffle", "local")}
DEAD: Final = {"on_exception": "dead_letter"}


def failed(*failures: tuple[int, str, str]) -> Callable[[Scene], None]:
    """These messages have failed: number, bolt, text."""
    told = [(number, Failure(FailReason.FAILED, text, bolt)) for number, bolt, text in failures]

    def check(scene: Scene) -> None:
        assert scene.failed == told, scene.failed

    return check


def dead_lettered(reason: str, text: str, component: str = "") -> Callable[[Scene], None]:
    """The outcomes of dead letters have this reason, and this text in their failure."""

    def check(scene: Scene) -> None:
        ends = [found[-1] for found in scene.outcomes().values() if found[-1]["outcome"] == "dead-letter"]
        assert {(each["reason"], each["component"]) for each in ends} == {(reason, component)}
        assert all(text in each["failure"] for each in ends), ends

    return check


def again() -> Iterator[Scenario]:
    """A failed message is emitted again, as a new tree; what its first attempt has emitted stays."""
    for name, links in LINKS.items():
        for guarantee in REPLAYING:
            of: dict[str, Any] = {"guarantee": guarantee, "attempts": {0: 1, 2: 2}}
            error = "ValueError: d"
            yield Scenario(
                f"replay of split, {name}, {guarantee}",
                line("basic", *links),
                raises=IN_SPLIT,
                check=failed((2, "split", error)),
                is_quick=name == "chain",
                **of,
            )
            yield Scenario(
                f"replay of end, {name}, {guarantee}",
                line("by_hand", *links),
                raises=IN_END,
                times="at least once",
                check=failed((2, "end", error)),
                **of,
            )
    yield Scenario(
        "fail with a text",
        line("coroutines"),
        raises=IN_SPLIT,
        error=FailTupleError,
        attempts={2: 2},
        check=failed((2, "split", "d")),
    )
    yield Scenario("nothing comes again", line(), raises=IN_END, guarantee="at_most_once", lacks="d")
    # The tuple of the large word cannot be delivered, so its message fails, for ever.
    yield Scenario(
        "too large",
        (Part("split", too_large), line()[1]),
        spout={"retry": TWICE},
        outcomes={2: "dead-letter"},
        lacks="d",
        letters=("messages/0",),
        attempts={2: 2},
        times="at least once",
        check=dead_lettered("retries-exhausted", "too large", "split"),
    )


def retries() -> Iterator[Scenario]:
    """A bolt's task executes a tuple again, in its tree."""
    retried: dict[str, Any] = {"on_exception": "retry", "retry": SOON}
    once: dict[int, int] = {0: 1, 2: 1}
    for of_kind in ("basic", "by_hand", "coroutines", "steps"):
        for guarantee in REPLAYING:
            yield Scenario(
                f"retry of {of_kind}, {guarantee}",
                line(of_kind, **retried),
                raises={("split", "d"): 2},
                guarantee=guarantee,
                attempts=once,
            )
    for guarantee in REPLAYING:
        of: dict[str, Any] = {"guarantee": guarantee}
        yield Scenario(
            f"retry in a chain, {guarantee}",
            line("basic", "local", **retried),
            raises={("split", "d"): 2},
            attempts=once,
            is_quick=True,
            **of,
        )
        yield Scenario(
            f"asks for a retry, {guarantee}",
            line("coroutines", "local", **{**retried, "on_exception": "fail"}),
            raises={("split", "d"): 2},
            error=RetryTupleError,
            attempts=once,
            **of,
        )
        yield Scenario(
            f"killed while a retry waits, {guarantee}",
            line("basic", on_exception="retry", retry=RetryPolicy(initial_delay=1.0)),
            (feed, until("it waits", lambda scene: scene.raised.total()), dies("split", "commits")),
            raises=IN_SPLIT,
            times="at least once" if guarantee == "at_least_once" else "once",
            deaths=1,
            **of,
        )
        exhausted: dict[str, Any] = {**retried, "retry": TWICE}
        yield Scenario(
            f"exhausted retries fail, {guarantee}",
            line("basic", **exhausted),
            raises={("split", "d"): 2},
            attempts={0: 1, 2: 2},
            check=failed((2, "split", "2 executions of the tuple failed, the last one with ValueError: d")),
            **of,
        )
        yield Scenario(
            f"exhausted retries, dead letter, {guarantee}",
            line("basic", "local", **exhausted, on_exhausted="dead_letter"),
            raises={("split", "d"): ALWAYS},
            outcomes={2: "dead-letter"},
            lacks=(2,),
            letters=("split/0",),
            attempts={2: 1},
            **of,
        )


def letters() -> Iterator[Scenario]:
    """A message with a dead letter in its tree ends as a dead letter, when the rest of the tree is processed."""
    for name, links in EVERY_LINK.items():
        for guarantee in REPLAYING:
            split, end = line("basic", *links)
            yield Scenario(
                f"dead letter of end, {name}, {guarantee}",
                (split, Part("end", end.make, end.link, options=DEAD)),
                guarantee=guarantee,
                raises={("end", "a"): ALWAYS},
                lacks="a",
                outcomes={0: "dead-letter", 2: "dead-letter"},
                attempts={0: 1, 1: 1, 2: 1},
                letters=("end/0", "end/0"),
                check=dead_lettered("failed", "ValueError: a", "end"),
                is_quick=name == "plain",
            )
    for guarantee in REPLAYING:
        for link in ("shuffle", "local"):
            split, end = line("basic", "shuffle")
            ship = Part("ship", kind("ship", "basic"), link, options=DEAD)
            yield Scenario(
                f"dead letter of another branch, {link}, {guarantee}",
                (split, ship, replace(end, source="split")),
                guarantee=guarantee,
                raises={("ship", "c"): ALWAYS},
                outcomes={2: "dead-letter", 3: "dead-letter"},
                attempts={0: 1, 1: 1, 2: 1, 3: 1},
                letters=("ship/0", "ship/0"),
                check=dead_lettered("failed", "ValueError: c", "ship"),
            )
        yield Scenario(
            f"dead letter, killed, {guarantee}",
            line("basic", **DEAD),
            (dies("split", "sends acks"), feed),
            guarantee=guarantee,
            settings={"message_timeout": 3 if guarantee == "at_least_once" else 25},
            raises={("split", "d"): ALWAYS},
            lacks=(2,),
            outcomes={2: "dead-letter"},
            letters=("split/0",),
            times="at least once" if guarantee == "at_least_once" else "once",
            deaths=1,
        )
        yield Scenario(
            f"a message that fails for ever, {guarantee}",
            line("basic", "local"),
            guarantee=guarantee,
            spout={"retry": TWICE},
            raises={("split", "d"): ALWAYS},
            lacks=(2,),
            outcomes={2: "dead-letter"},
            letters=("messages/0",),
            attempts={2: 2},
            check=dead_lettered("retries-exhausted", "reason failed: ValueError: d", "split"),
        )
    for guarantee in get_args(Guarantee):
        yield Scenario(
            f"a message that is skipped, {guarantee}",
            line("basic", "local"),
            texts=("a", "skip", "b"),
            guarantee=guarantee,
            lacks=(1,),
            outcomes={1: "skipped"},
        )


FAILURES = [*again(), *retries(), *letters()]
