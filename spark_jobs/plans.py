"""How our own plans run: without what Spark does for queries that it cannot foresee.

The settings hold while a plan is made, and not for what `transform` does: it has been planned by then, with the
settings of the session.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession

# Spark would clone the session to switch it off for what is kept.
_KEEPING: Final = {"spark.sql.sources.bucketing.autoBucketedScan.enabled": "false"}
_RUNNING: Final = {
    # What is kept would be tried for smaller forms, value by value; ids and payloads have none.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Plans anew between the stages of a job. There is nothing to find out about ours.
    "spark.sql.adaptive.enabled": "false",
    # Groups beyond which an aggregation sorts. Ours are the batches of a lane, and each is large.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Keeps rows, once they have been made, until the end of the block."""
    with _settings(rows.sparkSession, _KEEPING):
        rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()


@contextmanager
def fixed_plans(spark: SparkSession) -> Iterator[None]:
    """Actions within the block are planned once."""
    with _settings(spark, _RUNNING):
        yield


def write(records: DataFrame, kafka: Mapping[str, str]) -> None:
    """Writes records with Spark's Kafka sink."""
    with fixed_plans(records.sparkSession):
        records.write.format("kafka").options(**kafka).save()


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is not None:
                spark.conf.set(name, earlier)
