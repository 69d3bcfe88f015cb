"""A micro-batch that is held back when its query is stopped, until Spark interrupts it."""

from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs import running_query
from spark_jobs.errors import StoppedBetweenBatches
from spark_jobs.running_query import BatchRunner
from tests.spark.topologies import manifest_of

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


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a micro-batch of a query that is stopped; returns the seconds that it is held back, and what ends it."""

    def run(ends_at: float, interrupted_at: float = float("inf"), *, is_started: bool = True) -> tuple[float, Any]:
        spark: Any = Spark(ends_at, interrupted_at)
        monkeypatch.setattr(running_query, "time", SimpleNamespace(monotonic=lambda: spark.now))
        runner = BatchRunner("words", manifest_of("words").component("split"), lambda *_: pytest.fail("it runs"))
        if is_started:
            spark.writeStream = spark
            runner.start(spark, {}, "checkpoint", None)
        runner.stopping.set()
        records: Any = SimpleNamespace(sparkSession=spark)
        with pytest.raises((InterruptedError, StoppedBetweenBatches)) as raised:
            runner(records, 3)
        assert runner.parked.is_set()
        return round(spark.now, 1), raised.type

    return run


def test_it_is_held_back_until_it_is_interrupted(held_back: Any) -> None:
    assert held_back(0.2, 0.5) == (0.5, InterruptedError)


def test_it_is_held_back_for_a_second_when_its_query_has_ended_and_nothing_interrupts_it(held_back: Any) -> None:
    assert held_back(0.2) == (1.2, StoppedBetweenBatches)


@pytest.mark.parametrize("is_started", [True, False])
def test_it_is_held_back_for_half_a_minute_when_its_query_does_not_end(held_back: Any, is_started: bool) -> None:
    assert held_back(float("inf"), is_started=is_started) == (30.0, StoppedBetweenBatches)
