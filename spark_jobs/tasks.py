"""Tasks that write to Kafka themselves, and report to the driver: at their end, or beside the rows that they return."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

Report = TypeVar("Report")

_DESCRIPTION: Final = "spark.job.description"
_REPORT: Final = StructType([StructField("report", BinaryType())])


def run_tasks(rows: DataFrame, task: Callable[[Iterable[Any]], Report], description: str) -> list[Report]:
    """Runs a function on the record batches of each partition, and returns one report of each partition.

    A report is that of the attempt of a task which has succeeded: Spark returns the rows of no other. `task` and its
    report are pickled. Spark's UI shows the description.
    """
    context: Any = rows.sparkSession.sparkContext  # which removes a property that is set to None
    earlier = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, description)
    try:
        reports = rows.mapInArrow(partial(_reported, task), _REPORT).collect()
    finally:
        context.setLocalProperty(_DESCRIPTION, earlier)
    return [pickle.loads(row.report) for row in reports]  # noqa: S301 - of our own tasks


def _reported(task: Callable[[Iterable[Any]], object], batches: Iterable[Any]) -> Iterator[Any]:
    report = pickle.dumps(task(batches))
    yield pa.record_batch([pa.array([report], pa.binary())], ["report"])


class SideReports(Generic[Report]):
    """Reports of tasks that return rows: of each micro-batch, one for each key; `choose` takes one of two.

    Spark passes on the reports of attempts that have succeeded, when the action that ran them ends.
    """

    def __init__(self, spark: SparkContext, choose: Callable[[Report, Report], Report]) -> None:
        self._reports: Accumulator[dict[tuple[int, int], Report]] = spark.accumulator({}, _Merged(choose))

    def add(self, batch_id: int, key: int, report: Report) -> None:
        """Called on executors."""
        self._reports.add({(batch_id, key): report})

    def take(self, batch_id: int) -> dict[int, Report]:
        """Returns the reports of a micro-batch, and drops those of all others."""
        reports, self._reports.value = self._reports.value, {}
        return {key: report for (batch, key), report in list(reports.items()) if batch == batch_id}


class _Merged(AccumulatorParam[dict[Any, Any]]):
    def __init__(self, choose: Callable[[Any, Any], Any]) -> None:
        self._choose = choose

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:  # noqa: ARG002 - of Spark
        return {}

    def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802 - of Spark
        for key, report in value2.items():
            value1[key] = self._choose(value1[key], report) if key in value1 else report
        return value1
