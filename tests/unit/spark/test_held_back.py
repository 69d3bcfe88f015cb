"""A micro-batch that is held back when its query is stopped, until Spark interrupts it."""

from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs import running_query
from spark_jobs.errors import StoppedBetweenBatches
from spark_jobs.running_query import BatchRunner
from tests.spark.topologies import manifest_of

NEVER = float("inf")
QUERY = "00000000-0000-0000-0000-000000000001"


class Spark:
    """A session whose actions take a tenth of a second; a query that ends at one time is interrupted at another."""

    def __init__(self, ends_at: float, interrupted_at: float) -> None:
        self.ends_at, self.interrupted_at = ends_at, interrupted_at
        self.now = 0.0
        self.sparkContext = SimpleNamespace(getLocalProperty=lambda _name: QUERY)
        self.streams = SimpleNamespace(addListener=lambda _listener: None)
        self.readStream = self

    @property
    def isActive(self) -> bool:  # noqa: N802 - of Spark
        return self.now < self.ends_at

    def __getattr__(self, _name: str) -> Any:
        return lambda *_, **__: self

    def collect(self) -> None:
        self.now += 0.1
        if self.now >= self.interrupted_at:
            raise InterruptedError


@pytest.mark.parametrize(
    ("ends_at", "interrupted_at", "is_started", "seconds", "error"),
    [
        pytest.param(0.2, 0.5, True, 0.5, InterruptedError, id="until it is interrupted"),
        pytest.param(0.2, NEVER, True, 1.2, StoppedBetweenBatches, id="for a second if its query has ended"),
        pytest.param(NEVER, NEVER, True, 30.0, StoppedBetweenBatches, id="for half a minute if its query does not end"),
        pytest.param(NEVER, NEVER, False, 30.0, StoppedBetweenBatches, id="before its query is known"),
    ],
)
def test_a_micro_batch_of_a_query_that_is_stopped_is_held_back(
    monkeypatch: pytest.MonkeyPatch, ends_at: float, interrupted_at: float, is_started: bool, seconds: float, error: Any
) -> None:
    spark: Any = Spark(ends_at, interrupted_at)
    monkeypatch.setattr(running_query, "time", SimpleNamespace(monotonic=lambda: spark.now))
    runner = BatchRunner("words", manifest_of("words").component("split"), lambda *_: pytest.fail("it runs"))
    if is_started:
        spark.writeStream = spark
        runner.start(spark, {}, "checkpoint", None)
    runner.stopping.set()
    records: Any = SimpleNamespace(sparkSession=spark)
    with pytest.raises(error):
        runner(records, 3)
    assert runner.parked.is_set()
    assert round(spark.now, 1) == seconds
