"""The settings of an `AsyncBolt`, and how old trees may become and how long a stop takes because of them."""

from dataclasses import replace
from typing import Any

import pytest

from spout_sdk import AsyncBolt, AsyncCollector, TopologyBuilder, Tuple, declare
from spout_sdk.errors import ComponentError, TopologyError
from spout_sdk.operators.async_settings import DEFAULT_TIME_LIMIT, AsyncSettings
from spout_sdk.runtime.execute_watch import LONGEST_EXECUTE_MS
from spout_sdk.runtime.supervisor import stop_seconds
from tests.unit.sdk.async_rig import LIMIT, Jobs, Works
from tests.unit.sdk.bench import Bench


def built(bolt: Any, **options: Any) -> Any:
    builder = TopologyBuilder("work", message_timeout=30, **options)
    builder.set_spout("jobs", Jobs)
    builder.set_bolt("work", bolt).shuffle_grouping("jobs")
    return builder.build()


class Default(AsyncBolt):
    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None: ...


def made(**attributes: Any) -> Any:
    return type("Made", (Default,), attributes)


@pytest.mark.parametrize(
    ("bolt", "options", "age", "limit"),
    [
        (Default, {}, 300 + 1_800, 1_800),
        (made(time_limit=7_200.0), {}, 300 + 7_200, 7_200),
        (lambda: Default(), {}, 300 + 1_800, 1_800),
        (Default, {"max_tree_age": 60}, 60, 60),
        (made(time_limit=50), {"max_tree_age": 60}, 60, 50),
        (Default, {"guarantee": "at_most_once"}, 300, 1_800),
        (made(time_limit=7_200), {"guarantee": "at_most_once"}, 300, 7_200),
        (Default, {"tick": 0.002}, 2 * (2**18 - 2) / 1000, 2 * (2**18 - 2) / 1000),
    ],
)
def test_trees_may_live_for_as_long_as_their_inputs_may_run(bolt: Any, options: Any, age: float, limit: float) -> None:
    assert DEFAULT_TIME_LIMIT == LONGEST_EXECUTE_MS / 1000, "one call may take as long in any bolt"
    manifest = built(bolt, **options).manifest
    assert manifest.max_tree_age_ms == 1000 * age
    assert AsyncSettings.of("work", bolt(), manifest).time_limit == limit


def test_a_tree_may_pass_through_all_async_bolts() -> None:
    builder = TopologyBuilder("work", message_timeout=30)
    builder.set_spout("jobs", Jobs)
    builder.set_bolt("first", Works).shuffle_grouping("jobs")
    builder.set_bolt("second", Default).shuffle_grouping("first")
    assert builder.build().manifest.max_tree_age_ms == 1000 * (300 + LIMIT + DEFAULT_TIME_LIMIT)


@pytest.mark.parametrize(
    ("attributes", "options", "error"),
    [
        ({"time_limit": 61}, {"max_tree_age": 60}, "time_limit of bolt 'work' is 61 s, .* max_tree_age, 60 s.*: raise"),
        ({"time_limit": 0}, {}, "time_limit of bolt 'work' is 0: it must be a finite number"),
        ({"time_limit": "1"}, {"guarantee": "at_most_once"}, "time_limit of bolt 'work' is '1'"),
        ({"stop_timeout": -1}, {}, "stop_timeout of bolt 'work' is -1"),
        ({"concurrency": 0}, {}, "concurrency of bolt 'work', an AsyncBolt, is 0"),
        ({"ordered_by": "name"}, {}, "ordered_by 'name', a field that stream 'default' of 'jobs' does not have"),
        ({"ordered_by": ("user", "n", "m")}, {}, "is ordered_by 'm'"),
    ],
)
def test_invalid_settings_are_rejected(attributes: dict[str, Any], options: dict[str, Any], error: str) -> None:
    with pytest.raises(TopologyError, match=error):
        built(made(**attributes), **options)


@pytest.mark.parametrize("type_", [{"type": "array", "items": "string"}, ["null", {"type": "map", "values": "long"}]])
def test_an_order_by_lists_is_rejected(type_: Any) -> None:
    spout = type("Lists", (Jobs,), {"streams": (declare({"user": type_}),)})
    builder = TopologyBuilder("work")
    builder.set_spout("jobs", spout)
    builder.set_bolt("work", made(ordered_by="user")).shuffle_grouping("jobs")
    with pytest.raises(TopologyError, match=r"ordered_by 'user' of 'jobs', whose type is .*: use fields with text"):
        builder.build()


def test_supervisors_wait_for_the_longest_stop_timeout() -> None:
    assert stop_seconds(built(Default)) == stop_seconds(built(made(stop_timeout=1.0))) == 20
    topology = built(made(stop_timeout=65.0))
    assert stop_seconds(topology) == 80
    longer = made(stop_timeout=66.0)
    made_longer = replace(topology, factories={**topology.factories, "work": longer})
    with pytest.raises(ComponentError, match=r"stop_timeout of bolt 'work' is 66 s, .* 65 s after a stop began: set"):
        Bench(made_longer)


def test_there_are_no_tick_tuples() -> None:
    with pytest.raises(TopologyError, match="is an AsyncBolt, which has no tick tuples"):
        built(made(tick_interval=1.0))
