"""`build()` rejects invalid windows, with the change to make."""

from functools import partial
from typing import Any

import pytest

from spout_sdk import TopologyBuilder, TopologyError, WindowSpec, declare, sliding, tumbling
from spout_sdk.windows.specs import session
from tests.components import passing
from tests.unit.sdk.windowed_bolt_rig import Numbers, Total

BY_N = tumbling(seconds=2).with_timestamp_field("n")
BY_MISSING_FIELD = tumbling(seconds=2).with_timestamp_field("at")

Pass = passing(*Numbers.streams)


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


def build(bolt: Any, **settings: Any) -> None:
    """A topology with a bolt, or with a `Total` of a window."""
    made = builder(**settings)
    made.set_bolt("held", partial(Total, bolt) if isinstance(bolt, WindowSpec) else bolt).shuffle_grouping("numbers")
    made.build()


@pytest.mark.parametrize(
    ("spec", "hold"),
    [
        (tumbling(seconds=29), "30"),
        (tumbling(seconds=28), None),
        (sliding(seconds=20, every=10), "30"),
        (sliding(seconds=20, every=9.9), None),
        (sliding(seconds=29.5, every_count=10), "30.5"),
        (tumbling(count=10, flush_after=30), "31"),
        (sliding(count=9_000, every_seconds=100), None),
    ],
    ids=str,
)
def test_a_window_longer_than_the_message_timeout_is_rejected(spec: WindowSpec, hold: str | None) -> None:
    if hold is None:
        build(spec)
        return
    with pytest.raises(TopologyError) as raised:
        build(spec)
    assert str(raised.value) == (
        f"bolt 'held' with {spec} holds a tuple for up to {hold} seconds (its length, and what a window may close "
        "late), but tuples of spout 'numbers' reach it, which time out after 30 seconds: shorten the window, or "
        f"set a message_timeout above {hold} seconds"
    )


@pytest.mark.parametrize("stream", ["default", "float"])
def test_a_late_stream_may_have_a_wider_type(stream: str) -> None:
    build(partial(Wider, BY_N.with_late_tuple_stream(stream)))


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


@pytest.mark.parametrize(
    ("bolt", "message"),
    [
        (lambda: Minute(), r"bolt 'held' with tumbling\(seconds=60\)"),
        (Windowless, r"bolt 'held' is a WindowedBolt without windows: declare .* tumbling"),
        (Total, r"component 'held' cannot be created .* missing .* 'window'; move code"),
        (BY_MISSING_FIELD, r"field 'at', and stream 'default' of 'numbers' has n: long: it must"),
        (
            BY_N.with_late_tuple_stream("late"),
            r"late tuples to stream 'late', which it does not declare: add declare\(\{…\}, name='late'\)",
        ),
        (
            BY_N.with_late_tuple_stream("default"),
            r"'default' with field 'total', which stream 'default' of 'numbers' does not have",
        ),
        (
            partial(Text, BY_N.with_late_tuple_stream("text")),
            r"stream 'text', whose field 'n' is of type string, and stream 'default' of 'numbers' has n: long: declare",
        ),
        (
            tumbling(seconds=20).with_timestamp_field("n").with_lag(10),
            r"holds a tuple for up to 31 seconds \(its length, its lag, and what a window may close late\)",
        ),
        (session(gap=1), "are for an AggregateBolt"),
        (BY_N.with_grace(1), "are for an AggregateBolt"),
        (BY_N.with_idle_sources(), "are for an AggregateBolt"),
    ],
)
def test_invalid_bolts_are_rejected(bolt: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        build(bolt)


def test_windows_that_do_not_suit_the_guarantee_or_the_options_are_rejected() -> None:
    with pytest.raises(TopologyError, match="each task that moves, would lose what its windows hold"):
        build(tumbling(count=2), guarantee="at_most_once")
    with pytest.raises(TopologyError, match="take the time from the tuples, with_timestamp_fi"):
        build(sliding(seconds=2, every=1), guarantee="exactly_once")
    with pytest.raises(TopologyError, match="which differs after a restart"):
        build(sliding(seconds=2, every_count=1), guarantee="exactly_once")
    with pytest.raises(TopologyError, match="its window sets"):
        builder().set_bolt("held", Minute, tick_interval=1.0)


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
