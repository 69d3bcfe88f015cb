"""Tasks that write to Kafka themselves, and report to the driver."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
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
