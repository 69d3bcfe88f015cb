"""Records that a bolt with a state writes to a topic: of changes that are in the state."""

from typing import Any

from spout_sdk import KafkaSpout, RetryPolicy, TopologyBuilder, Tuple, declare
from spout_sdk.state import StateCollector, StatefulBolt
from spout_sdk.testing import SimulatedCluster


class RaisesLate(StatefulBolt):
    """Writes its sum, and then raises for 100."""

    state = int

    def update(self, value: int, tuple_: Tuple) -> int:
        return value + tuple_["n"]  # type: ignore[no-any-return]

    def emit(self, key: str, value: int, tuple_: Tuple, collector: StateCollector) -> None:
        collector.write("sums", b"%d" % value, key=key.encode())
        if tuple_["n"] == 100:
            raise ValueError("not this one")


class WritesMuch(RaisesLate):
    """Writes a record that is too large between two others."""

    def emit(self, key: str, value: int, tuple_: Tuple, collector: StateCollector) -> None:
        for size in (1, 2_000_000 if tuple_["n"] == 2 else 1, 1):
            collector.write("sums", b"%d" % value * size, key=key.encode())


def summed(bolt: Any, *numbers: int) -> SimulatedCluster:
    builder = TopologyBuilder("sums")
    retry = RetryPolicy(initial_delay=0, delay_period=0, max_retries=2)
    number = declare({"key": str, "n": int})
    spout = KafkaSpout(
        "numbers", streams=[number], translate=lambda record: ("a", int(record.value() or b"")), retry=retry
    )
    builder.set_spout("numbers", spout)
    builder.set_bolt("sum", bolt).fields_grouping("numbers", "key")
    cluster = SimulatedCluster(builder.build(), topics={"sums": 1})
    for each in numbers:
        cluster.produce("numbers", str(each))
        cluster.run_until_idle()
    cluster.advance(5)
    return cluster


def test_a_write_of_an_emit_that_raises_is_not_in_the_topic() -> None:
    with summed(RaisesLate, 1, 2, 100, 3) as cluster:
        assert [int(record.value() or b"") for record in cluster.records("sums")] == [1, 3, 6]
        assert len(cluster.dead_letters()) == 1


def test_a_write_that_is_refused_fails_its_tuple_which_is_counted_once() -> None:
    with summed(WritesMuch, 1, 2, 3) as cluster:
        assert cluster.state("sum") == {"a": 6}
        (letter,) = cluster.dead_letters()
        assert "a record for topic sums was not delivered" in letter.detail
        # The tuple of 2 is executed three times: what a message changes is recognised, what it writes is not.
        values = [int(record.value() or b"") for record in cluster.records("sums")]
        assert (values[:5], values[-1]) == ([1, 1, 1, 3, 3], 6)
