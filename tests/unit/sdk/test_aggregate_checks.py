"""`build()` rejects an invalid `AggregateBolt`, with the change to make."""

from typing import Any

import pytest

from spout_sdk import KafkaSpout, TopologyBuilder, Tuple, declare
from spout_sdk.errors import TopologyError
from spout_sdk.state import StatefulBolt
from spout_sdk.windows import AggregateBolt, count, fold, session, total, tumbling
from tests.components import Sink, source
from tuple_tree.components import WINDOW_START

BY_AT = tumbling(seconds=60).with_timestamp_field("at")
RESULT = declare({"page": str, "start": int, "end": int, "clicks": int})

LATE_TEXT = declare({"at": str}, name="late")


def bolt(base: type = AggregateBolt, **members: Any) -> type:
    defaults = {"window": BY_AT, "aggregates": {"clicks": count()}, "streams": (RESULT,)}
    return type("Clicks", (base,), {**defaults, **members})


def builder(made: Any, *, key: str = "page", **settings: Any) -> TopologyBuilder:
    building = TopologyBuilder("clicks", **settings)
    fields = declare({"page": str, "at": int, "euros": float, "maybe": ["null", "string"], "window_start": int})
    building.set_spout("source", KafkaSpout("in", streams=[fields], translate=lambda _record: None))
    building.set_bolt("clicks", made, tasks=3).fields_grouping("source", key)
    return building


def update(_self: Any, value: Any, _tuple: Tuple) -> Any:
    return value


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"window": None}, "without windows: declare window = tumbling"),
        ({"window": tumbling(count=3).with_timestamp_field("at")}, "counts tuples: leave the timestamp out"),
        ({"window": tumbling(seconds=3)}, "has no time: add with_timestamp_field"),
        ({"window": session(gap=3)}, "has no time: add with_timestamp_field"),
        (
            {"window": BY_AT.with_late_tuple_stream("late"), "streams": (RESULT, LATE_TEXT)},
            "has at: long: declare the type",
        ),
        ({"window": tumbling(seconds=3).with_timestamp_field("page")}, "takes the time from field 'page'"),
        ({"window": BY_AT.with_late_tuple_stream("late")}, "which it does not declare"),
        ({"window": BY_AT.with_late_tuple_stream("default")}, "give the late stream another name"),
        ({"aggregates": {}}, "declare aggregates"),
        ({"state": int}, "declare aggregates"),
        ({"update": update}, "declare aggregates"),
        ({"state": int, "aggregates": {}}, "declare aggregates"),
        ({"aggregates": {"clicks": total("nowhere")}}, "bolt 'clicks': aggregate 'clicks' takes field 'nowhere'"),
        ({"emit_on": "end"}, "emit_on"),
        ({"streams": ()}, "without a stream 'default'"),
        (
            {"streams": (declare({"page": str, "start": int, "end": int, "clicks": str}),)},
            "has the results page: str",
        ),
        ({"streams": (declare({"page": str, "clicks": int}),)}, "has the results page: str"),
        (
            {"streams": (declare({"page": bytes, "n": int}),), "result": lambda *_: None},
            "the results of bolt 'clicks' have field 'page' of type bytes, which JSON",
        ),
        (
            {"window": session(gap=3).with_timestamp_field("at"), "aggregates": {}, "state": int, "update": update},
            r"define merge\(\)",
        ),
        (
            {
                "window": session(gap=3).with_timestamp_field("at"),
                "aggregates": {"clicks": fold(int, 0, lambda value, _: value)},
            },
            "cannot be merged",
        ),
        ({"aggregates": {"window_end": count()}, "window": session(gap=3).with_timestamp_field("at")}, "'window_end'"),
        ({"aggregates": {}, "state": {"at": "nonsense"}, "update": update}, "bolt 'clicks'"),
    ],
)
def test_what_does_not_fit_is_an_error(members: dict[str, Any], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        builder(bolt(**members)).build()


def test_a_key_or_a_guarantee_that_does_not_suit_windows_is_rejected() -> None:
    results = declare({"window_start": int, "start": int, "end": int, "clicks": int})
    with pytest.raises(TopologyError, match="grouped by 'window_start', a name of the SDK"):
        builder(bolt(streams=(results,)), key="window_start").build()
    with pytest.raises(TopologyError, match="is not known with at_most_once"):
        builder(bolt(), guarantee="at_most_once").build()


def test_subscriptions_of_results_are_those_of_a_spout() -> None:
    building = builder(bolt())
    building.set_bolt("sink", Sink, tasks=2).shuffle_grouping("clicks", load_aware=False)
    topology = building.build()
    manifest = topology.manifest
    (_, results) = manifest.spouts
    assert (results.name, results.tasks, results.streams) == ("clicks-results", 3, (RESULT,))
    assert topology.kafka_sources == {"source": ("in",), "clicks-results": ("clicks.results.clicks",)}
    sink = manifest.component("sink")
    assert [each.source for each in sink.subscriptions] == ["clicks-results"]  # type: ignore[union-attr]
    assert topology.even_shuffles == {("clicks-results", "default", "sink")}
    clicks = manifest.component("clicks")
    assert clicks.state.windows == "close"  # type: ignore[union-attr]
    assert [field.name for field in clicks.state.key] == ["page", WINDOW_START.name]  # type: ignore[union-attr]
    assert topology.state_guarantees == {"clicks": "each tuple once"}
    assert building.build().manifest == manifest, "it may be built again"
    building.set_bolt("clicks-results", Sink).shuffle_grouping("clicks")
    with pytest.raises(TopologyError, match="'clicks-results' has the name of the spout that reads the results"):
        building.build()


def test_a_stream_without_identities_is_said_so() -> None:
    building = TopologyBuilder("clicks")
    building.set_spout("source", source(declare({"page": str, "at": int})))
    building.set_bolt("clicks", bolt()).fields_grouping("source", "page")
    assert "replays are counted again" in building.build().state_guarantees["clicks"]


@pytest.mark.parametrize(
    ("emit_on", "guarantee"),
    [
        ("close", "each tuple once"),
        (
            "change",
            "each tuple once; 'clicks' emits the results of windows as they are by then",
        ),
    ],
)
def test_a_state_behind_windows_says_that_a_replay_may_have_other_results(emit_on: str, guarantee: str) -> None:
    class Pages(StatefulBolt):
        state = int

        def update(self, value: int, tuple_: Tuple) -> int:
            return value + 1

    building = builder(bolt(emit_on=emit_on))
    building.set_bolt("pages", Pages).fields_grouping("clicks", "page")
    assert building.build().state_guarantees["pages"].partition(", so")[0] == guarantee
