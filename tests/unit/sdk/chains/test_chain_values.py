"""Values that do not fit, or cannot be read: a chained bolt treats them as an unchained one does."""

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from spout_sdk import KafkaBolt, RetryPolicy, StreamDeclaration, TopologyBuilder, declare
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.testing import SimulatedCluster
from tests.components import Sink, kinds, source

REAL = declare({"x": float})
TIME = {"type": "long", "logicalType": "timestamp-micros"}
GOOD = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
# It can be encoded, and lies before year 1 in UTC.
BAD = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
GROUPINGS = pytest.mark.parametrize("grouping", ["shuffle", "local"])


class Columns(ArrowBolt):
    """Acks all rows."""

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        collector.ack()


def topology(
    emits: Any, grouping: str, bolt: Any, *, stream: StreamDeclaration | None = None, **options: Any
) -> TopologyBuilder:
    """A spout of numbers, or of a stream, a bolt that emits, and a bolt behind it."""
    builder = TopologyBuilder("values", message_timeout=5, max_tree_age=300)
    builder.set_spout("numbers", source(stream or declare({"n": int})))
    builder.set_bolt("emits", emits).shuffle_grouping("numbers")
    getattr(builder.set_bolt("seen", bolt, **options), f"{grouping}_grouping")("emits")
    return builder


def emitting(stream: StreamDeclaration, value: Callable[[int], Any], times: Callable[[int], int] = lambda _: 1) -> Any:
    """A bolt that emits values for a number."""
    return kinds(lambda values, _: [((value(values[0]),), "default")] * times(values[0]), stream).basic


@GROUPINGS
@pytest.mark.parametrize(
    ("stream", "value", "acked"),
    [
        (declare({"x": {"type": "array", "items": "string"}}), lambda n: ["a", "b"], [0, 1]),
        (declare({"x": "int"}), lambda n: 2**40 if n else 1, [0]),
        (declare({"x": str}), lambda n: "\ud800" if n else "a", [0]),
    ],
    ids=["an Avro body", "a large number", "half of a surrogate pair"],
)
def test_columns_of_values_that_were_emitted_as_tuples(
    stream: StreamDeclaration, value: Callable[[int], Any], acked: list[int], grouping: str
) -> None:
    builder = topology(emitting(stream, value), grouping, Columns)
    with SimulatedCluster(builder.build(), sources={"numbers": [(0,), (1,)]}) as cluster:
        cluster.advance(10)
        assert cluster.acked("numbers") == acked
        assert len(cluster.failed("numbers")) == 2 - len(acked)


@pytest.mark.parametrize("rows", [1, 100], ids=["one row", "a pack"])
@GROUPINGS
def test_a_value_that_cannot_be_read_is_a_dead_letter_and_other_tuples_are_executed(grouping: str, rows: int) -> None:
    stream = declare({"at": TIME}, codec="avro")
    bolt = emitting(stream, lambda n: BAD if n else GOOD, lambda n: rows if n else 1)
    builder = topology(bolt, grouping, Sink)
    builder.set_bolt("through-kafka", Sink).shuffle_grouping("emits")
    with SimulatedCluster(builder.build(), sources={"numbers": [(0,), (1,)]}) as cluster:
        cluster.advance(10)
        assert cluster.acked("numbers") == [0]
        assert [message_id for message_id, _ in cluster.failed("numbers")] == [1]
        assert cluster.executed("seen") == [(GOOD,)]
        assert len(cluster.records("values.dead-letters")) == 2 * rows


def test_rows_that_cannot_be_read_do_not_count_as_waiting() -> None:
    class Times(ArrowBolt):
        streams = (declare({"at": TIME}),)

        def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
            collector.emit({"at": pa.array([2**62] * batch.num_rows, pa.timestamp("us", "UTC"))})
            collector.ack()

    builder = topology(Times, "local", Sink)
    with SimulatedCluster(builder.build(), sources={"numbers": [(1,)] * 7}) as cluster:
        cluster.advance(10)
        assert len(cluster.failed("numbers")) == 7
        assert not cluster._tasks["emits", 0].task.running_inputs, "a stop would wait for them"


@GROUPINGS
def test_a_kafka_bolt_that_writes_columns_executes_ticks_and_retries(grouping: str) -> None:
    options: Any = {
        "tick_interval": 1.0,
        "on_exception": "retry",
        "retry": RetryPolicy(delay_period=0.1, max_retries=2),
        "max_consecutive_failures": 0,
    }
    passing = kinds(lambda values, _: [(values, "default")], REAL).columns
    # JSON has no NaN.
    builder = topology(passing, grouping, lambda: KafkaBolt("out"), stream=REAL, **options)
    with SimulatedCluster(builder.build(), sources={"numbers": [(float("nan"),)] * 5 + [(1.0,)]}) as cluster:
        cluster.advance(30)
        assert cluster.acked("numbers") == [5]
        assert sorted(message_id for message_id, _ in cluster.failed("numbers")) == [0, 1, 2, 3, 4]
        assert cluster.stats("seen").pending == 0
