"""Windows by event time wait for newer tuples; message timeout and limit of the spout must not prevent that."""

import json
from typing import Any

import pytest

from spout_sdk import KafkaSpout, Topology, TopologyBuilder, Window, WindowedBolt, declare, tumbling
from spout_sdk.testing import SimulatedCluster
from spout_sdk.windows.specs import WindowSpec

TIMEOUT = 30
RATE = 40
"""Messages a second: a window holds more than the least limit of a spout."""


class Count(WindowedBolt):
    window: WindowSpec = tumbling(seconds=10).with_timestamp_field("at").with_lag(2)

    def execute_window(self, window: Window) -> None:
        assert {tuple_["at"] // 10_000 * 10 for tuple_ in window.tuples} == {window.start}


class CountByNumber(Count):
    window = tumbling(count=500)

    def execute_window(self, window: Window) -> None:
        assert len(window.tuples) == 500


def topology(bolt: Any = Count, **options: Any) -> Topology:
    builder = TopologyBuilder("clicks", message_timeout=TIMEOUT, **options)
    builder.set_spout("clicks", KafkaSpout("clicks", streams=[declare({"at": int}, codec="json")]))
    builder.set_bolt("count", bolt).shuffle_grouping("clicks")
    return builder.build()


def produce(cluster: SimulatedCluster, seconds: int) -> None:
    """Messages of that many seconds, each with its time."""
    for _ in range(seconds):
        for number in range(RATE):
            cluster.produce("clicks", json.dumps({"at": int(cluster.now * 1000) + number}))
        cluster.advance(1)


@pytest.mark.parametrize(("bolt", "guarantee"), [(Count, "exactly_once"), (CountByNumber, "at_least_once")])
def test_held_tuples_do_not_time_out_while_the_source_pauses(bolt: Any, guarantee: Any) -> None:
    with SimulatedCluster(topology(bolt, guarantee=guarantee)) as cluster:
        produce(cluster, 26)
        cluster.advance(60)
        assert len(cluster.pending("clicks")) == (26 * RATE) % (10 * RATE if bolt is Count else 500)
        produce(cluster, 60)
        assert cluster.stats("clicks").failed == {}
        assert cluster.stats("clicks").acked >= 60 * RATE


def test_a_window_closes_although_its_spout_is_limited() -> None:
    with SimulatedCluster(topology(max_spout_pending=700), paused=["count"]) as cluster:
        for number in range(120 * RATE):
            cluster.produce("clicks", json.dumps({"at": number * 1000 // RATE}))
        cluster.advance(2 * TIMEOUT)
        assert cluster.stats("clicks").failed
        cluster.resume("count")
        cluster.advance(2 * TIMEOUT)
        assert cluster.stats("clicks").acked == 110 * RATE
        assert len(cluster.pending("clicks")) == 10 * RATE


def test_windows_get_new_messages_after_a_pause_that_is_longer_than_the_largest_tree_age() -> None:
    with SimulatedCluster(topology(max_tree_age=2 * TIMEOUT)) as cluster:
        produce(cluster, 26)
        cluster.advance(5 * TIMEOUT)
        assert set(cluster.stats("clicks").failed) == {"too_old"}
        produce(cluster, 60)
        assert cluster.stats("clicks").acked >= 70 * RATE


def test_late_tuples_without_a_stream_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with SimulatedCluster(topology()) as cluster:
        for at in (0, 30_000):
            cluster.produce("clicks", json.dumps({"at": at}))
            cluster.advance(2)
        for _ in range(100):
            cluster.produce("clicks", json.dumps({"at": 1}))
        cluster.advance(60)
        cluster.produce("clicks", json.dumps({"at": 1}))
        cluster.advance(1)
        assert cluster.stats("count").counters["late tuples"] == 101
    first, second = [line for line in caplog.messages if "late tuples" in line]
    assert first.startswith("count/0: 1 late tuples")
    assert second.startswith("count/0: 100 late tuples")
    assert "with_lag" in first
    assert "with_late_tuple_stream" in first
