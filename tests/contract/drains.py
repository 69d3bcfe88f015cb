"""Requested states: what spouts emit when a topology is paused, drains or is stopped."""

from collections.abc import Iterator
from typing import Any, get_args

from tests.contract.bolts import line
from tests.contract.scenario import (
    REPLAYING,
    Scenario,
    Scene,
    feed,
    feed_some,
    paused,
    requested,
    restarted,
    resumed,
    until,
    until_ended,
    until_executed,
    until_failed,
)
from tuple_tree.manifest import Guarantee


def only(messages: int) -> Any:
    """No message after the first ones is emitted."""

    def check(scene: Scene) -> None:
        assert max((number for number, _ in scene.executed["split"]), default=-1) < messages

    return check


def nothing_is_open(scene: Scene) -> bool:
    return scene.running.stats("messages").pending == 0


def drains() -> Iterator[Scenario]:
    settle = until("nothing is open", nothing_is_open)
    for guarantee in get_args(Guarantee):
        of: dict[str, Any] = {"guarantee": guarantee}
        for state, bolts in (("draining", line()), ("paused", line("basic", "local")), ("stopped", line())):
            happens = (
                *(feed_some(2), until_executed("end", 3), requested(state), settle, feed),
                *(restarted("messages"), settle, only(2), requested("running")),
            )
            quick = state == "paused" and guarantee == "at_least_once"
            yield Scenario(f"{state}, {guarantee}", bolts, happens, is_quick=quick, **of)
    emitted = until("they are emitted", lambda scene: scene.running.stats("messages").emitted == 2)
    # While it drains, a failed message is emitted again; while it is paused, it waits.
    for guarantee in REPLAYING:
        of = {"guarantee": guarantee, "raises": {("split", "d"): 1}, "texts": ("a", "d", "b", "c")}
        for state in ("draining", "paused"):
            before = (paused("split"), feed_some(2), emitted, requested(state), resumed("split"), until_failed(1))
            yield Scenario(
                f"{state} with a failure, {guarantee}",
                line(),
                (*before, *([until_ended(2)] if state == "draining" else []), feed, only(2), requested("running")),
                attempts={1: 2},
                **of,
            )


DRAINS = [*drains()]
