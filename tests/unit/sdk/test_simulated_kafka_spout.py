"""A `KafkaSpout` in a simulated cluster: it reads topics in memory, by position, as it reads those of Kafka."""

from typing import Any

import pytest

from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, Record, RetryPolicy, Topology, TopologyBuilder, Tuple
from spout_sdk.testing import SimulatedCluster, SimulationError


class Touchy(BasicBolt):
    """Fails the line `bad`, always."""

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


def test_messages_are_delivered_and_committed_also_those_of_a_spout_that_is_killed() -> None:
    with SimulatedCluster(built(tasks=2), topics={"text": 3}, paused=["touchy"]) as cluster:
        for number in range(30):
            cluster.produce("text", f"line {number}", partition=number % 3)
        cluster.produce("text", None, key="a tombstone")
        cluster.advance(2)
        cluster.kill("lines")
        cluster.resume("touchy")
        cluster.advance(10)
        assert set(cluster.executed("touchy")) == {(f"line {number}",) for number in range(30)}
        assert len(cluster.executed("touchy")) > 30
        assert cluster.uncommitted("lines") == {"text[0]": 0, "text[1]": 0, "text[2]": 0}


def test_a_failed_message_is_read_again_and_a_dead_letter_in_the_end() -> None:
    with SimulatedCluster(built()) as cluster:
        for value in ("good", "bad", "good"):
            cluster.produce("text", value)
        cluster.advance(0.5)
        assert cluster.uncommitted("lines") == {"text[0]": 3}, "the first commit comes with the first tick"
        cluster.advance(20)
        assert cluster.emitted("lines").count(("bad",)) == 3
        (letter,) = cluster.dead_letters()
        assert (letter.reason, letter.offset, letter.value) == ("retries-exhausted", 1, b"bad")
        assert cluster.uncommitted("lines") == {"text[0]": 0}


def test_what_cannot_be_produced_is_refused() -> None:
    with SimulatedCluster(built()) as cluster:
        with pytest.raises(SimulationError, match="there is no topic 'texts'"):
            cluster.produce("texts", "a")
        with pytest.raises(SimulationError, match="has no partition 1: it has 1"):
            cluster.produce("text", "a", partition=1)
        with pytest.raises(SimulationError, match="the message does not fit into text"):
            cluster.produce("text", b"x" * 2_000_000)
