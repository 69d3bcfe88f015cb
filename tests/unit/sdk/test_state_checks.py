"""Checks of the builder of bolts with a state, and the guarantees that it names for them."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from spout_sdk import KafkaSpout, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.errors import TopologyError
from spout_sdk.groupings import CustomGrouping
from spout_sdk.state import StatefulBolt
from tests.unit.sdk.state_rig import (
    Balance,
    Count,
    Payments,
    Split,
    accounts,
    translate,
    words,
)


class First(CustomGrouping):
    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        return (0,)


def behind_a_custom_grouping() -> Topology:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", KafkaSpout("text", streams=[declare({"line": str})], translate=translate))
    builder.set_bolt("split", Split, tasks=2).custom_grouping("lines", First)
    builder.set_bolt("count", Count).fields_grouping("split", "word")
    return builder.build()


def chained_states() -> Topology:
    builder = TopologyBuilder("chained")
    builder.set_spout("words", KafkaSpout("words", streams=[declare({"word": str})]))
    builder.set_bolt("count", Count).fields_grouping("words", "word")
    builder.set_bolt("again", Count).fields_grouping("count", "word")
    return builder.build()


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (words(), {"count": "each tuple once"}),
        (accounts(), {"balance": "replays are counted again, because spout 'payments' is not a KafkaSpout"}),
        (words("at_most_once"), {"count": "each tuple once at most"}),
        (
            chained_states(),
            {"again": "each tuple once; 'count' must emit as many tuples for a replay, with the same keys, whatever"},
        ),
        (
            behind_a_custom_grouping(),
            {"count": "each tuple once; the custom grouping of 'split' must choose the same tasks for a replay"},
        ),
    ],
)
def test_the_builder_says_what_a_state_guarantees(topology: Topology, expected: dict[str, str]) -> None:
    ((bolt, beginning),) = expected.items()
    assert topology.state_guarantees[bolt].startswith(beginning)


def keep(_self: Any, value: Any, _tuple: Tuple) -> Any:
    return value


def keeping(**members: Any) -> Any:
    return type("Keeping", (StatefulBolt,), {"update": keep, **members})


@pytest.mark.parametrize(
    ("bolt", "expected"),
    [
        (keeping(), "has no state: declare the fields"),
        (keeping(state={"at": complex}), "complex, which is not an Avro type"),
        (
            keeping(state={"count": int, "cents": int}, initial={"count": 1}),
            "initial value that does not fit its state: a value of the state lacks the field 'cents'",
        ),
        (keeping(state={"picture": bytes}), 'keyed_state({…}, codec="avro")'),
    ],
)
def test_the_builder_refuses_states_that_cannot_be_kept(bolt: Any, expected: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(expected)):
        accounts(bolt=bolt)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (lambda each: each.shuffle_grouping("payments"), "use fields_grouping()"),
        (
            lambda each: each.fields_grouping("payments", "owner").fields_grouping("others", "number"),
            "its keys differ: owner: string of 'payments', and number: long of 'others'",
        ),
    ],
)
def test_the_builder_refuses_a_state_without_one_key(group: Any, expected: str) -> None:
    builder = TopologyBuilder("bank")
    builder.set_spout("payments", Payments)
    builder.set_spout("others", Payments)
    group(builder.set_bolt("balance", Balance))
    with pytest.raises(TopologyError, match=re.escape(expected)):
        builder.build()
