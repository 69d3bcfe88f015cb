"""The settings by which the statistics of a component are judged."""

from typing import Any

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    KafkaSpout,
    RetryPolicy,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.windows import Window, WindowedBolt, tumbling


class Ask(AsyncBolt):
    streams = (declare({"value": str}),)
    concurrency = 7
    time_limit: float | None = 150.0

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        pass


class AskForLong(Ask):
    time_limit = None


class Collect(WindowedBolt):
    streams = (declare({"at": int}, name="late"),)
    window = tumbling(seconds=9).with_timestamp_field("at").with_late_tuple_stream("late")

    def execute_window(self, window: Window) -> None:
        pass


class Keep(BasicBolt):
    def execute(self, tuple_: Tuple, collector: Any) -> None:
        pass


def build() -> Topology:
    builder = TopologyBuilder("shop", message_timeout=30)
    builder.set_spout("orders", KafkaSpout("orders", retry=RetryPolicy(max_retries=9)))
    builder.set_spout("times", KafkaSpout("times", streams=[declare({"at": int})]))
    builder.set_bolt("ask", Ask).shuffle_grouping("orders")
    builder.set_bolt("long", AskForLong).shuffle_grouping("ask")
    keep = builder.set_bolt("keep", Keep, on_exception="retry", retry=RetryPolicy(max_retries=15))
    keep.shuffle_grouping("long")
    builder.set_bolt("collect", Collect).global_grouping("times")
    return builder.build()


def test_a_component_has_the_settings_of_its_code() -> None:
    assert build().settings == {
        "orders": {"max_retries": 9},
        "ask": {"concurrency": 7, "time_limit_ms": 150_000},
        "long": {"concurrency": 7},
        "keep": {"max_retries": 15},
        "collect": {"late_stream": 1},
    }


def test_no_tree_may_end_for_a_message_timeout_and_the_limits_of_its_bolts() -> None:
    topology = build()
    assert topology.longest_silence("orders") == 180
    assert topology.longest_silence("times") == 30
