"""A `KafkaSpout` in a simulated cluster: it reads topics in memory, by position, as it reads those of Kafka."""

from typing import Any

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    KafkaSpout,
    Record,
    RetryPolicy,
    Topology,
    TopologyBuilder,
    Tuple,
)
from spout_sdk.testing import SimulatedCluster, SimulationError


class Touchy(BasicBolt):
    """Cannot do with `bad`, ever."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_[0] == "bad":
            raise ValueError("a bad line")


def translate(record: Record) -> tuple[str] | None:
    value = record.value()
    return None if value is None else (value.decode(),)


def built(tasks: int = 1, **settings: Any) -> Topology:
    builder = TopologyBuilder("lines", message_timeout=5.0)
    retry = RetryPolicy(initial_delay=1.0, max_retries=2)
    spout = KafkaSpout("text", retry=retry, translate=translate, **settings)
    builder.set_spout("lines", spout, tasks=tasks)
    builder.set_bolt("touchy", Touchy, tasks=2).shuffle_grouping("lines")
    return builder.build()


def test_messages_are_delivered_and_committed() -> None:
    with SimulatedCluster(built(tasks=2), topics={"text": 3}) as cluster:
        for number in range(30):
            cluster.produce("text", f"line {number}", partition=number % 3)
        cluster.produce("text", None, key="a tombstone")
        cluster.run_until_idle()
        assert sorted(cluster.emitted("lines")) == sorted((f"line {number}",) for number in range(30))
        assert len(cluster.acked("lines")) == 30
        cluster.advance(2)
        assert cluster.uncommitted("lines") == {"text[0]": 0, "text[1]": 0, "text[2]": 0}


def test_what_fails_is_read_again_by_position_and_set_aside_in_the_end() -> None:
    with SimulatedCluster(built()) as cluster:
        for value in ("good", "bad", "good"):
            cluster.produce("text", value)
        cluster.advance(0.5)
        assert cluster.uncommitted("lines") == {"text[0]": 3}, "the first commit comes with the first tick"
        cluster.advance(20)
        assert [values for values in cluster.emitted("lines") if values == ("bad",)] == [("bad",)] * 3
        (letter,) = cluster.dead_letters()
        assert (letter.reason, letter.offset, letter.value) == ("retries-exhausted", 1, b"bad")
        assert cluster.uncommitted("lines") == {"text[0]": 0}


@pytest.mark.parametrize("seed", range(5))
def test_a_spout_that_is_killed_loses_nothing(seed: int) -> None:
    with SimulatedCluster(built(), seed=seed, paused=["touchy"]) as cluster:
        for number in range(50):
            cluster.produce("text", f"line {number}")
        cluster.advance(2)
        cluster.kill("lines")
        cluster.resume("touchy")
        cluster.advance(10)
        assert {values[0] for values in cluster.executed("touchy")} == {f"line {number}" for number in range(50)}
        assert cluster.uncommitted("lines") == {"text[0]": 0}


def test_a_topic_that_is_not_there_is_named() -> None:
    with SimulatedCluster(built()) as cluster:
        with pytest.raises(SimulationError, match="there is no topic 'texts'"):
            cluster.produce("texts", "a")
        with pytest.raises(SimulationError, match="has no partition 1: it has 1"):
            cluster.produce("text", "a", partition=1)
        with pytest.raises(SimulationError, match="the message does not fit into text"):
            cluster.produce("text", b"x" * 2_000_000)
