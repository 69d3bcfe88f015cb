"""Windows: of tuples that are held, and of values in the state."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.contract.bolts import publish, through
from tests.contract.crashes import KEEPS, TIMEOUTS
from tests.contract.keyed_bolts import in_windows, per_window, timed
from tests.contract.lives import Step
from tests.contract.scenario import REPLAYING, Part, Scenario, dies, feed, feed_some, restarted, until_executed

HELD: Final = through(Part("windows", in_windows, "global"))
BEHIND: Final = through(Part("windows", in_windows, "global"), "local", "shuffle")

TEXTS: Final = ("a b", "b", "a c a", "b c", "a", "end")
"""A second each: `end` closes the windows before it."""
TIMED: Final = Part("split", timed), Part("count", per_window, "word"), Part("end", publish("end"))
PER_WINDOW: Final = Counter(
    (word, number // 2 * 2_000, number // 2 * 2_000 + 2_000)
    for number, text in enumerate(TEXTS)
    for word in text.split()
    if number < 4
)
RESULTS: Final = dict.fromkeys(((*of, words) for of, words in PER_WINDOW.items()), 1)


def held() -> Iterator[Scenario]:
    steps: Sequence[Step] = ("has emitted", "sends acks", "commits", "has committed")
    for guarantee in REPLAYING:
        of: dict[str, Any] = {
            "guarantee": guarantee,
            "settings": {"message_timeout": TIMEOUTS[guarantee]},
            "ends": "split",
        }
        yield Scenario(f"held, {guarantee}", HELD, **of)
        yield Scenario(f"held behind a chain, {guarantee}", BEHIND, **of)
        for step in steps:
            kill = dies("windows", step), feed
            yield Scenario(f"held, {step}, {guarantee}", HELD, kill, times=KEEPS[guarantee], deaths=1, **of)
        moves = feed_some(3), until_executed("windows", 4), restarted("windows"), feed
        yield Scenario(f"held, restart, {guarantee}", HELD, moves, times=KEEPS[guarantee], **of)
        fails: dict[str, Any] = {"raises": {("end", "d"): 1}, "times": "at least once", **of}
        yield Scenario(f"held, a replay, {guarantee}", HELD, **fails)


def in_the_state() -> Iterator[Scenario]:
    for guarantee in REPLAYING:
        of: dict[str, Any] = {"guarantee": guarantee, "texts": TEXTS, "results": RESULTS, "ends": "split"}
        yield Scenario(f"aggregates, {guarantee}", TIMED, **of)
        again = {**of, "times": "once" if guarantee == "exactly_once" else "at least once", "deaths": 1}
        for component, step in (("count", "writes its state"), ("count", "commits"), ("split", "sends acks")):
            yield Scenario(
                f"aggregates, {component} {step}, {guarantee}", TIMED, (dies(component, step), feed), **again
            )
        twice = {**of, "raises": {("split", "c"): 1}, "attempts": {2: 2}}
        yield Scenario(f"aggregates, a replay, {guarantee}", TIMED, **twice)
        moves = feed_some(3), until_executed("split", 3), restarted("count"), feed
        yield Scenario(f"aggregates, restart, {guarantee}", TIMED, moves, **of)


WINDOWS = [*held(), *in_the_state()]
