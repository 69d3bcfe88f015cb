"""Windows that cannot work are refused when the topology is built, and the message says what to change."""

import logging
from functools import partial

import pytest

from spout_sdk import (
    Bolt,
    Spout,
    TopologyBuilder,
    TopologyError,
    Tuple,
    Window,
    WindowedBolt,
    WindowSpec,
    declare,
    sliding,
    tumbling,
)


class Numbers(Spout):
    streams = (declare({"n": int}), declare({"n": int}, name="others"))

    def next_tuple(self) -> None:
        """Has nothing to emit."""


class Pass(Bolt):
    streams = (declare({"n": int}),)

    def execute(self, tuple_: Tuple) -> None:
        """Is never run here."""


class Sum(WindowedBolt):
    streams = (declare({"n": int}),)

    def execute_window(self, window: Window) -> None:
        self.collector.emit((sum(tuple_["n"] for tuple_ in window.tuples),))


class Held(Sum):
    def __init__(self, window: WindowSpec) -> None:
        self.window = window


class Minute(Sum):
    window = tumbling(seconds=60)


class Windowless(Sum):
    pass


def builder(*, timeout: float = 30.0, pending: int = 10_000) -> TopologyBuilder:
    made = TopologyBuilder("numbers", message_timeout=timeout, max_spout_pending=pending)
    made.set_spout("numbers", Numbers)
    return made


@pytest.mark.parametrize(
    ("spec", "hold"),
    [
        (tumbling(seconds=30), "31"),
        (tumbling(seconds=29), "30"),
        (sliding(seconds=20, every=10), "30"),
        (sliding(seconds=29.5, every_count=10), "30.5"),
        (tumbling(count=10, flush_after=30), "31"),
    ],
)
def test_a_window_longer_than_the_message_timeout_is_refused(spec: WindowSpec, hold: str) -> None:
    made = builder()
    made.set_bolt("held", partial(Held, spec)).shuffle_grouping("numbers")
    with pytest.raises(TopologyError) as raised:
        made.build()
    assert str(raised.value) == (
        f"bolt 'held' with {spec} holds a tuple for up to {hold} seconds (its length, and what a window may close "
        "late), but tuples of spout 'numbers' reach it, which time out after 30 seconds: shorten the window, or set a "
        f"message_timeout above {hold} seconds"
    )


@pytest.mark.parametrize(
    "spec",
    [
        tumbling(seconds=28),
        sliding(seconds=20, every=9.9),
        sliding(seconds=20, every_count=10_000),
        sliding(count=100, every_seconds=5),
        tumbling(count=10_000),
        tumbling(count=10_000, flush_after=20),
        sliding(count=10_000, every=1),
    ],
)
def test_a_shorter_window_is_not(spec: WindowSpec, caplog: pytest.LogCaptureFixture) -> None:
    made = builder()
    made.set_bolt("held", partial(Held, spec)).shuffle_grouping("numbers")
    made.build()
    assert caplog.records == []


def test_windows_declared_in_the_class_count_too_and_whatever_makes_the_bolt() -> None:
    for factory in (Minute, lambda: Minute(), partial(Minute)):
        made = builder()
        made.set_bolt("minute", factory).shuffle_grouping("numbers")
        with pytest.raises(TopologyError, match=r"bolt 'minute' with tumbling\(seconds=60\)"):
            made.build()


def test_every_spout_upstream_counts_however_far_and_no_other() -> None:
    made = builder(timeout=20)
    made.set_spout("slow", Numbers, message_timeout=100)
    made.set_spout("quick", Numbers, message_timeout=5)
    made.set_bolt("pass", Pass).shuffle_grouping("slow").shuffle_grouping("back")
    made.set_bolt("back", Pass).shuffle_grouping("pass")
    made.set_bolt("held", partial(Held, tumbling(seconds=30))).shuffle_grouping("back")
    made.set_bolt("after", Pass).shuffle_grouping("held").shuffle_grouping("numbers")
    made.build()
    made.set_bolt("late", partial(Held, tumbling(seconds=30))).shuffle_grouping("after")
    with pytest.raises(TopologyError, match=r"bolt 'late' .* tuples of spout 'numbers' .* after 20 seconds"):
        made.build()


def test_without_trees_nothing_times_out() -> None:
    made = TopologyBuilder("numbers", guarantee="at_most_once", message_timeout=1)
    made.set_spout("numbers", Numbers)
    made.set_bolt("minute", Minute).shuffle_grouping("numbers")
    made.build()


def test_a_bolt_without_windows_is_refused() -> None:
    made = builder()
    made.set_bolt("none", Windowless).shuffle_grouping("numbers")
    with pytest.raises(TopologyError, match=r"bolt 'none' is a WindowedBolt without windows: declare .* tumbling"):
        made.build()


def test_a_bolt_that_cannot_be_made_is_refused() -> None:
    made = builder()
    made.set_bolt("held", Held).shuffle_grouping("numbers")
    with pytest.raises(TopologyError, match=r"bolt 'held' cannot be made .* missing .* 'window'; what it needs"):
        made.build()


def test_exactly_once_and_windows_do_not_go_together() -> None:
    made = TopologyBuilder("numbers", guarantee="exactly_once")
    made.set_spout("numbers", Numbers)
    made.set_bolt("held", partial(Held, tumbling(count=2))).shuffle_grouping("numbers")
    with pytest.raises(TopologyError, match="every input is settled in the transaction that read it: use at_least_onc"):
        made.build()


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (tumbling(count=101), "waits for 101 tuples, but its spouts may have only 100 open"),
        (sliding(count=101, every=1), "waits for 101 tuples"),
        (sliding(count=100, every_seconds=1), "waits for 101 tuples"),
        (tumbling(count=100), None),
        (sliding(count=99, every_seconds=1), None),
        (tumbling(count=101, flush_after=5), None),
    ],
)
def test_a_count_that_spouts_cannot_fill_is_warned_of(
    spec: WindowSpec, says: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    made = builder(pending=25)
    made.set_spout("more", Numbers, tasks=3)
    made.set_bolt("held", partial(Held, spec)).shuffle_grouping("numbers").shuffle_grouping("more", "others")
    with caplog.at_level(logging.WARNING):
        made.build()
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == (says is not None)
    assert all((says or "") in message for message in messages)


def test_where_a_tree_may_have_several_tuples_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    made = builder(pending=25)
    made.set_bolt("pass", Pass).shuffle_grouping("numbers")
    made.set_bolt("held", partial(Held, tumbling(count=1_000))).shuffle_grouping("pass")
    made.build()
    assert caplog.records == []
