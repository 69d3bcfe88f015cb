"""Where a spout of a topology takes its messages from.

A topology names a topic, or a function that is called on the driver:

    def orders(spark):
        from pyspark.sql import functions as F
        from spark_jobs import Source

        return Source("orders", fields={"order": F.col("key").cast("string")}, retry_limit=3)

    builder.set_spout("orders", orders, external=True, streams=[declare({"order": str})])

The function imports what it needs by itself, so that processes of the SDK import the topology without PySpark.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession

from spark_jobs.errors import ComponentRefusedError, first_line
from tuple_tree.errors import InvalidNameError
from tuple_tree.names import check_topic

DEFAULT_RETRY_LIMIT: Final = 10


@dataclass(frozen=True, slots=True)
class Source:
    """The messages of a spout, and the settings that belong to its code; see `spout` for what each means.

    Attributes:
        messages: a topic, or a streaming DataFrame.
        fields: a column for each field of the stream, made of Kafka's; only for a topic.
        retry_limit: attempts after the first one, below 64.
        starting_offsets: `earliest` or `latest`, where nothing is committed yet.
        options: further options of Spark's Kafka source, such as `minPartitions`.
    """

    messages: str | DataFrame
    fields: Mapping[str, Column] | None = None
    retry_limit: int = DEFAULT_RETRY_LIMIT
    starting_offsets: str = "earliest"
    options: Mapping[str, str] | None = None


SourceFunction = Callable[[SparkSession], str | DataFrame | Source]
"""Called once on the driver, before the spout starts."""


def source_of(spark: SparkSession, name: str, given: str | SourceFunction) -> Source:
    """What a spout reads.

    Args:
        spark: what a function is called with.
        name: of the spout.
        given: what the topology was given for it.

    Raises:
        ComponentRefusedError: if the function raises, or returns something else than a source.
    """
    made: Any = given if isinstance(given, str) else _called(spark, name, given)
    source = made if isinstance(made, Source) else Source(made)
    messages: Any = source.messages
    if isinstance(messages, str):
        try:
            check_topic(messages)
        except InvalidNameError as error:
            raise ComponentRefusedError(f"spout {name!r} reads no topic: {error}") from error
    elif not isinstance(messages, DataFrame):
        told = f"{'Source of a ' if isinstance(made, Source) else ''}{type(messages).__name__}"
        raise ComponentRefusedError(
            f"the source of spout {name!r} returns a {told}: have it return the name of a topic, a streaming "
            "DataFrame, or a spark_jobs.Source of one of these"
        )
    return source


def _called(spark: SparkSession, name: str, function: SourceFunction) -> Any:
    try:
        return function(spark)
    except Exception as error:
        raise ComponentRefusedError(
            f"the source of spout {name!r} raised {type(error).__name__}: {first_line(error)}; correct the function"
        ) from error
