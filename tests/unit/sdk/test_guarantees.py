"""Topologies that cannot keep what exactly_once promises are refused, with a reason."""

from typing import Any

import pytest

from spout_sdk import TopologyBuilder, TopologyError, declare
from tests.unit.sdk.bolt_rig import Lines, Sink, Split

WORD = (declare({"word": str}),)


def rows(rows: Any) -> Any:
    return rows


def builder(**settings: Any) -> TopologyBuilder:
    made = TopologyBuilder("words", **settings)
    made.set_spout("lines", Lines)
    return made


def test_a_message_timeout_must_outlast_a_process_that_dies() -> None:
    builder(guarantee="exactly_once").build()
    builder(guarantee="exactly_once", message_timeout=25).build()
    builder(message_timeout=2).build()
    short = builder(guarantee="exactly_once")
    short.set_spout("more", Lines, message_timeout=24)
    with pytest.raises(TopologyError, match=r"spout 'more' is 24 s: with exactly_once it must be at least 25 s. When"):
        short.build()


def test_a_bolt_that_may_write_twice_cannot_be_amid_bolts_that_do_not() -> None:
    for guarantee in ("exactly_once", "at_least_once"):
        made = builder(guarantee=guarantee)
        made.set_bolt("split", Split).shuffle_grouping("lines")
        made.set_bolt("last", rows, external=True).shuffle_grouping("split")
        made.build()
    made = builder(guarantee="exactly_once")
    made.set_bolt("split", rows, external=True, streams=WORD).shuffle_grouping("lines")
    made.set_bolt("count", Sink).shuffle_grouping("split")
    with pytest.raises(TopologyError, match=r"bolt 'split' .* cannot emit to count. Make it the last one"):
        made.build()
