"""Long work in an `AsyncBolt`: time limits, trees that are kept alive, inputs in the order of a key."""

import re
import threading

import pytest

from spout_sdk import AsyncCollector, Tuple
from spout_sdk.errors import ComponentError
from tests.unit.sdk.async_rig import LIMIT, Works, running
from tests.waiting import eventually
from tuple_tree.manifest import Guarantee

OVER = "TimeoutError: execute_async() exceeded its time_limit of 60 s"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_coroutine_is_cancelled_at_its_time_limit_and_its_input_fails(guarantee: Guarantee) -> None:
    with running(guarantee=guarantee) as rig:
        rig.feed("a", "b")
        rig.begun(1, 2)
        rig.pass_time(LIMIT - 1)
        rig.end(2)
        assert (rig.acked(), rig.failed()) == ({2}, {})
        rig.feed("c")
        rig.begun(1, 2, 3)
        rig.pass_time(1)
        rig.turn_until(lambda: rig.running == 1)
        assert (rig.acked(), rig.failed(), rig.sent) == ({2}, {1: OVER}, 1)
        rig.end(3)
        assert (rig.acked(), rig.task.committable) == ({2, 3}, 3)


def test_the_time_limit_is_an_exception_of_the_bolt() -> None:
    with running(on_exception="crash") as rig:
        rig.feed("a")
        rig.begun(1)
        rig.pass_time(LIMIT)
        with pytest.raises(ComponentError, match="exceeded its time_limit of 60 s"):
            rig.turn_until(lambda: False)


def test_a_coroutine_that_ignores_its_cancellation_gives_its_slot_back(caplog: pytest.LogCaptureFixture) -> None:
    with running() as rig:
        rig.feed("stubborn", "stubborn")
        rig.begun(1, 2)
        rig.pass_time(LIMIT)
        rig.pass_time(0.9)
        assert rig.failed() == {}
        rig.pass_time(0.2)
        assert rig.failed() == {1: OVER, 2: OVER}
        assert "work/0: execute_async() for work.tuples.work[0] offset 0 did not end within 1 s after" in caplog.text
        rig.feed("a")
        rig.bolt.events.call_soon_threadsafe(rig.bolt.futures[1].set_result, "done")
        eventually(lambda: rig.bolt.refused, "an emit that is too late")
        assert "exceeded its time_limit, and its input has failed: nothing is sent" in rig.bolt.refused[0]
        rig.end(3)
        assert (rig.acked(), rig.task.committable, rig.sent) == ({3}, 3, 1)


def test_as_many_coroutines_as_have_slots_may_ignore_their_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    with running() as rig:
        for first in (1, 3):
            rig.feed("stubborn", "stubborn")
            rig.begun(*range(1, first + 2))
            rig.pass_time(LIMIT)
            rig.pass_time(1)
        assert rig.failed() == dict.fromkeys((1, 2, 3, 4), OVER)
        assert rig.task.committable == 4
        assert "Its place stays taken until it ends, because 2 such coroutines still run" in caplog.text
        rig.feed("a")
        assert 5 not in rig.bolt.begun
        rig.bolt.events.call_soon_threadsafe(rig.bolt.futures[4].set_result, "done")
        rig.end(5)
        assert rig.acked() == {5}


released = threading.Event()


class Blocks(Works):
    """Blocks the event loop."""

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        self.begun.append(tuple_["n"])
        released.wait(30)


def test_inputs_of_an_event_loop_that_is_blocked_fail() -> None:
    released.clear()
    with running(Blocks) as rig:
        rig.feed("a", "b")
        eventually(lambda: rig.bolt.begun, "one begun")
        rig.pass_time(LIMIT)
        rig.pass_time(1)
        assert rig.failed() == {1: OVER, 2: OVER}
        released.set()
        assert (rig.acked(), rig.failed(), rig.task.committable) == (set(), {1: OVER, 2: OVER}, 2)


def test_an_input_is_open_for_as_long_as_it_runs_and_waits() -> None:
    """It has an outcome in the end, so it is not settled because it is open for longer than a tree may be."""
    with running() as rig:
        rig.record("a", "b", "c")
        rig.begun(1, 2)
        for _ in range(4):
            rig.pass_time(LIMIT / 6)
        assert (rig.task.committable, rig.failed()) == (0, {})


class Ordered(Works):
    concurrency = 3
    ordered_by = ("user",)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_inputs_of_a_key_run_one_after_another_and_others_at_the_same_time(guarantee: Guarantee) -> None:
    with running(Ordered, guarantee) as rig:
        rig.feed("a", "a", "b", "a", "b")
        rig.begun(1, 3)
        assert rig.running == 5
        rig.end(1, "raise")
        rig.begun(1, 3, 2)
        rig.end(3)
        rig.begun(1, 3, 2, 5)
        rig.end(2)
        rig.begun(1, 3, 2, 5, 4)
        rig.end(4)
        rig.end(5)
        assert (rig.acked(), rig.failed()) == ({2, 3, 4, 5}, {1: "ValueError: refused"})
        rig.feed("a")
        rig.end(6)
        assert (rig.acked(), rig.task.committable, rig.running) == ({2, 3, 4, 5, 6}, 6, 0)


def test_a_task_takes_as_many_inputs_as_it_can_begin_and_as_many_to_wait_for_their_key() -> None:
    with running(Ordered) as rig:
        rig.record(*("a" * 10), "b")
        for n in range(1, 11):
            rig.turn_until(lambda: n in rig.bolt.begun)  # noqa: B023
            assert 11 not in rig.bolt.begun or n + Ordered.concurrency >= 11, "it is taken too early"
            rig.end(n)
        rig.end(11)
        assert (rig.acked(), rig.task.committable) == ({*range(1, 12)}, 1)


def test_the_next_input_of_a_key_runs_after_one_that_has_no_key_or_exceeds_its_time_limit() -> None:
    """JSON carries any value."""
    with running(Ordered, stream="json") as rig:
        rig.feed({"name": "a"}, "stubborn", "stubborn")
        rig.pass_time(LIMIT)
        rig.pass_time(1)
        failed = rig.failed()
        assert re.fullmatch(r"TypeError: .*unhashable type: 'dict'.*: the bolt is ordered_by user", failed.pop(1))
        assert failed == {2: OVER}
        rig.end(3)
        assert rig.acked() == {3}
