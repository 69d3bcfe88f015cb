"""`build()` rejects invalid windows, with the change to make."""

from functools import partial
from typing import Any

import pytest

from spout_sdk import TopologyBuilder, TopologyError, WindowSpec, declare, sliding, tumbling
from spout_sdk.windows.specs import session
from tests.components import Sink
from tests.unit.sdk.windowed_bolt_rig import Numbers, Total

BY_FIELD = tumbling(seconds=2).with_timestamp_field("at")


class Pass(Sink):
    streams = Numbers.streams


class Minute(Total):
    window = tumbling(seconds=60)

    def __init__(self) -> None:
        """Has the window of its class."""


class Text(Total):
    streams = (declare({"n": str}), declare({"n": str}, name="text"))


class Wider(Total):
    streams = (declare({"n": ["null", "long", "string"]}), declare({"n": float}, name="float"))


class Windowless(Total):
    def __init__(self) -> None:
        """Has no window."""


def builder(**settings: Any) -> TopologyBuilder:
    made = TopologyBuilder("numbers", **settings)
    made.set_spout("numbers", Numbers)
    return made


def held(made: TopologyBuilder, bolt: Any) -> TopologyBuilder:
    made.set_bolt("held", bolt).shuffle_grouping("numbers")
    return made


def test_a_window_longer_than_the_message_timeout_is_rejected() -> None:
    for spec, hold in [
        (tumbling(seconds=30), "31"),
        (tumbling(seconds=29), "30"),
        (sliding(seconds=20, every=10), "30"),
        (sliding(seconds=29.5, every_count=10), "30.5"),
        (tumbling(count=10, flush_after=30), "31"),
    ]:
        with pytest.raises(TopologyError) as raised:
            held(builder(), partial(Total, spec)).build()
        assert str(raised.value) == (
            f"bolt 'held' with {spec} holds a tuple for up to {hold} seconds (its length, and what a window may close "
            "late), but tuples of spout 'numbers' reach it, which time out after 30 seconds: shorten the window, or "
            f"set a message_timeout above {hold} seconds"
        )


def test_a_window_below_the_timeout_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    for spec in (
        tumbling(seconds=28),
        sliding(seconds=20, every=9.9),
        sliding(seconds=20, every_count=10_000),
        sliding(count=9_000, every_seconds=100),
        tumbling(count=10_000, flush_after=28),
    ):
        held(builder(), partial(Total, spec)).build()
    for spec in (tumbling(seconds=2), tumbling(count=2), sliding(count=2, every=1), sliding(count=2, every_seconds=1)):
        held(builder(guarantee="exactly_once"), partial(Total, spec)).build()
    timed = sliding(seconds=2, every=1).with_timestamp_field("n").with_late_tuple_stream("each")
    held(builder(guarantee="exactly_once"), partial(Total, timed)).build()
    assert caplog.records == []


@pytest.mark.parametrize("stream", ["default", "float"])
def test_a_late_stream_may_have_a_wider_type(stream: str) -> None:
    spec = tumbling(seconds=2).with_timestamp_field("n").with_late_tuple_stream(stream)
    held(builder(), partial(Wider, spec)).build()


def test_every_spout_upstream_counts_however_far_and_no_other() -> None:
    made = builder(message_timeout=20)
    made.set_spout("slow", Numbers, message_timeout=100)
    made.set_spout("quick", Numbers, message_timeout=5)
    made.set_bolt("pass", Pass).shuffle_grouping("slow").shuffle_grouping("back")
    made.set_bolt("back", Pass).shuffle_grouping("pass")
    made.set_bolt("held", partial(Total, tumbling(seconds=30))).shuffle_grouping("back")
    made.set_bolt("after", Pass).shuffle_grouping("held").shuffle_grouping("numbers")
    made.build()
    made.set_bolt("late", partial(Total, tumbling(seconds=30))).shuffle_grouping("after")
    with pytest.raises(TopologyError, match=r"bolt 'late' .* tuples of spout 'numbers' .* after 20 seconds"):
        made.build()


def test_invalid_bolts_are_rejected() -> None:
    refusals: list[tuple[Any, str, str]] = [
        (Minute, "at_least_once", r"bolt 'held' with tumbling\(seconds=60\)"),
        (lambda: Minute(), "at_least_once", r"bolt 'held' with tumbling\(seconds=60\)"),
        (partial(Minute), "at_least_once", r"bolt 'held' with tumbling\(seconds=60\)"),
        (partial(Total, tumbling(count=2)), "at_most_once", "each task that moves, would lose what its windows hold"),
        (Windowless, "at_least_once", r"bolt 'held' is a WindowedBolt without windows: declare .* tumbling"),
        (Total, "at_least_once", r"component 'held' cannot be made .* missing .* 'window'; what it needs"),
        (
            partial(Total, sliding(seconds=2, every=1)),
            "exactly_once",
            "take the time from the tuples, with_timestamp_fi",
        ),
        (partial(Total, sliding(seconds=2, every_count=1)), "exactly_once", "which is another time after a restart"),
        (
            partial(Total, BY_FIELD),
            "at_least_once",
            r"field 'at', and stream 'default' of 'numbers' has n: long: it must",
        ),
        (
            partial(Total, tumbling(seconds=2).with_timestamp_field("n").with_late_tuple_stream("late")),
            "at_least_once",
            r"late tuples to stream 'late', which it does not declare: add declare\(\{…\}, name='late'\)",
        ),
        (
            partial(Total, tumbling(seconds=2).with_timestamp_field("n").with_late_tuple_stream("default")),
            "at_least_once",
            r"'default' with field 'total', which stream 'default' of 'numbers' does not have",
        ),
        (
            partial(Text, tumbling(seconds=2).with_timestamp_field("n").with_late_tuple_stream("text")),
            "at_least_once",
            r"stream 'text', whose field 'n' is of type string, and stream 'default' of 'numbers' has n: long: declare",
        ),
        (
            partial(Total, tumbling(seconds=20).with_timestamp_field("n").with_lag(10)),
            "at_least_once",
            r"holds a tuple for up to 31 seconds \(its length, its lag, and what a window may close late\)",
        ),
    ]
    with pytest.raises(TopologyError, match="its window sets"):
        builder().set_bolt("held", Minute, tick_interval=1.0)
    for bolt, guarantee, message in refusals:
        with pytest.raises(TopologyError, match=message):
            held(builder(guarantee=guarantee), bolt).build()


def test_a_window_larger_than_max_spout_pending_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    fits = (tumbling(count=100), sliding(count=99, every_seconds=1), tumbling(count=101, flush_after=5))
    for spec in (tumbling(count=101), sliding(count=101, every=1), sliding(count=100, every_seconds=1), *fits):
        made = builder(max_spout_pending=25)
        made.set_spout("more", Numbers, tasks=3)
        made.set_bolt("held", partial(Total, spec)).shuffle_grouping("numbers").shuffle_grouping("more", "others")
        # Behind another bolt a tree may have several tuples.
        made.set_bolt("pass", Pass).shuffle_grouping("numbers")
        made.set_bolt("later", partial(Total, tumbling(count=1_000))).shuffle_grouping("pass")
        caplog.clear()
        made.build()
        warned = ["waits for 101 tuples, but its spouts may have only 100 open" in each for each in caplog.messages]
        assert warned == ([] if spec in fits else [True]), spec


@pytest.mark.parametrize("spec", [session(gap=1), BY_FIELD.with_grace(1), BY_FIELD.with_idle_sources()])
def test_windows_of_aggregates_are_rejected_for_a_windowed_bolt(spec: WindowSpec) -> None:
    with pytest.raises(TopologyError, match="are for an AggregateBolt"):
        held(builder(), partial(Total, spec)).build()
