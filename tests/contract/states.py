"""Bolts with a state: each message changes it once, whatever fails."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

from tests.contract.bolts import through
from tests.contract.crashes import TIMEOUTS
from tests.contract.keyed_bolts import counting
from tests.contract.lives import Step
from tests.contract.scenario import (
    REPLAYING,
    TEXTS,
    Part,
    Scenario,
    Scene,
    dies,
    feed,
    feed_some,
    paused,
    restarted,
    resumed,
    until_executed,
    until_failed,
)
from tuple_tree.manifest import Guarantee

COUNTS: Final = Counter(word for text in TEXTS for word in text.split())
COUNT: Final = Part("count", counting, "word")
SPREAD: Final = through(COUNT)
BEHIND: Final = through(COUNT, "local", "shuffle")
"""`split` is chained to the spout."""
STEPS: Final[Sequence[Step]] = ("executes", "writes its state", "commits", "has committed")


def latest(scene: Scene) -> None:
    """The largest count of each word among the results is its last one; with at_most_once it may come at any time."""

    def counts() -> Counter[str]:
        largest: Counter[str] = Counter()
        for _, word, count in scene.results():
            largest[word] = max(largest[word], count)
        return largest

    scene.running.eventually(lambda: counts() == COUNTS, "the last counts")


def counted(name: str, guarantee: Guarantee, bolts: Sequence[Part] = SPREAD, **rest: Any) -> Scenario:
    """The results have a count for each tuple, which depends on the order: so they are checked by `latest`."""
    settings = {"message_timeout": TIMEOUTS[guarantee]}
    given = {"state": COUNTS, "check": latest, "results": {}, "times": "any", "settings": settings, **rest}
    return Scenario(f"{name}, {guarantee}", bolts, guarantee=guarantee, **given)


def states() -> Iterator[Scenario]:
    for guarantee in get_args(Guarantee):
        yield counted("counts", guarantee, is_quick=guarantee == "at_least_once")
        yield counted("behind a chain", guarantee, BEHIND)
        moves = feed_some(2), until_executed("count", 3), restarted("count"), feed
        yield counted("restart", guarantee, happens=moves)
    for guarantee in REPLAYING:
        for step in STEPS:
            is_quick = (step, guarantee) == ("commits", "exactly_once")
            yield counted(f"count {step}", guarantee, happens=(dies("count", step), feed), deaths=1, is_quick=is_quick)
        for component, bolts in (("split", SPREAD), ("messages", BEHIND)):
            kill = dies(component, "sends acks"), feed
            yield counted(f"{component} dies", guarantee, bolts, happens=kill, deaths=1)
        yield counted("a replay", guarantee, raises={("end", "d"): 1}, attempts={2: 2})
        yield counted("an update that raises", guarantee, raises={("count", "d"): 1}, attempts={2: 2})
        late = feed_some(2), paused("end"), feed, until_failed(1), resumed("end")
        yield counted("trees time out", guarantee, happens=late)


STATES = [*states()]
