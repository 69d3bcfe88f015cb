"""A bolt in coroutines: many inputs at a time, each settled in the task's thread, and the inputs of a commit."""

import threading
from typing import Any

import pytest

from spout_sdk import AsyncCollector, Tuple
from spout_sdk.errors import ComponentError
from tests.unit.sdk.async_rig import Works, running
from tuple_tree.commit_metadata import Commit
from tuple_tree.done_sets import DoneSet
from tuple_tree.manifest import Guarantee
from tuple_tree.payloads import payload_codec


class Four(Works):
    concurrency = 4


def test_inputs_end_in_any_order_and_are_acked_with_their_emits() -> None:
    with running(Four) as rig:
        rig.record("resetting", "a")
        rig.end(2)
        assert (rig.acked(), rig.sent, rig.task.committable) == ({2}, 1, 0)
        rig.end(1)
        assert (rig.acked(), rig.sent, rig.task.committable) == ({1, 2}, 2, 1)
        assert (rig.resets(), rig.failed()) == ({1: 1}, {})
        with pytest.raises(RuntimeError, match="has ended, and its input is acked: await"):
            rig.bolt.collectors[1].emit((9,))
    assert len(rig.bolt.threads) == 1
    assert threading.get_ident() not in rig.bolt.threads


def test_an_input_that_raises_fails_and_emits_nothing() -> None:
    with running(Four) as rig:
        rig.record("a", "a", "a")
        for n, outcome in enumerate(("raise", "fail", "cancel"), 1):
            rig.end(n, outcome)
        assert rig.failed() == {
            1: "ValueError: refused",
            2: "try later",
            3: "CancelledError",
        }
        assert (rig.sent, rig.task.committable) == (0, 1)


def test_values_that_change_after_an_emit_are_sent_as_they_were() -> None:
    values: list[Any] = [0]

    class Reuses(Works):
        async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
            for number in range(3):
                values[0] = 10 + number
                collector.emit(values)
            await super().execute_async(tuple_, collector)

    with running(Reuses) as rig:
        rig.feed("a")
        rig.end(1)
        rig.task.flush()
        codec = payload_codec(Works.streams[0])
        sent = [codec.decode(each.value or b"")[0] for each in rig.bench.sink.to(".next")]
        assert sent == [[(10,)], [(11,)], [(12,)], [(1,)]]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_inputs_are_settled_as_they_end_and_are_in_the_committed_set(guarantee: Guarantee) -> None:
    """The next owner executes open inputs only."""
    with running(Four, guarantee) as rig:
        rig.record("a", "a")
        rig.record("a")
        rig.end(2)
        rig.end(3)
        assert (rig.acked(), rig.sent) == ({2, 3}, 2)
        assert Commit.of(rig.task.done) == Commit.of(DoneSet(0, [(1, 2)], {0: [(1, 2)]}))
        rig.task.restart(kill=True)
        rig.begun(1)
        rig.end(1, "fail")
        assert (rig.acked(), rig.sent, rig.task.committable) == ({2, 3}, 2, 2)
        assert rig.failed() == {1: "try later"}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_an_input_that_was_cancelled_has_no_outcome_and_one_that_raised_has(guarantee: Guarantee) -> None:
    with running(Four, guarantee) as rig:
        rig.record("a")
        rig.record("a", "a")
        rig.begun(1, 2, 3)
        rig.end_unseen(1, 2, outcome="raise")
        first = rig.bolt
        rig.task.restart()
        assert rig.bench.sink.failed() == dict.fromkeys({1, 2}, "ValueError: refused")
        assert (rig.task.committable, rig.sent) == (1, 0)
        assert first.events.is_closed()
        rig.begun(3)
        rig.end(3)
        assert rig.acked() == {3}


def test_an_exception_that_ends_the_process_ends_it_while_it_stops_as_well() -> None:
    """Earlier emits of the input must not be committed, because it is read again."""
    with running(guarantee="exactly_once", on_exception="crash") as rig:
        rig.feed("a")
        rig.begun(1)
        rig.end_unseen(1, outcome="raise")
        with pytest.raises(ComponentError, match="ValueError: refused"):
            rig.task.restart()
    assert rig.bolt.events.is_closed()
