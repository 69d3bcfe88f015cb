"""How far a streaming query had planned, read from Spark's own checkpoint.

Spark writes the offsets of a micro-batch into `offsets/{batch}` before it runs it, and runs it again with the same ones
unless it was committed. So what lies before them may have been delivered, and what lies behind them was not.
"""

import json
from typing import Any, Final

from pyspark.sql import SparkSession

from spark_jobs.errors import CheckpointRefusedError

_OFFSETS: Final = "offsets"


def planned_offsets(spark: SparkSession, checkpoint: str, topic: str) -> dict[int, int]:
    """The end of the last micro-batch that was planned, by partition; empty if there was none.

    Raises:
        CheckpointRefusedError: if the checkpoint cannot be understood, or is of another topic.
    """
    files, path = _open(spark, checkpoint, _OFFSETS)
    if not files.exists(path):
        return {}
    names = [status.getPath().getName() for status in files.listStatus(path)]
    batches = [int(name) for name in names if name.isdigit()]
    if not batches:
        return {}
    files, path = _open(spark, checkpoint, _OFFSETS, str(max(batches)))
    stream = files.open(path)
    try:
        jvm: Any = spark._jvm
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    # A version, Spark's own metadata, and a line for each source.
    try:
        found = json.loads(text.splitlines()[2])
        return {int(partition): int(offset) for partition, offset in found[topic].items()}
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointRefusedError(
            f"offsets of batch {max(batches)} in checkpoint {checkpoint} cannot be read ({error!r}): give the query a "
            "fresh directory, it goes on from the offsets of its group"
        ) from error
    except KeyError:
        raise CheckpointRefusedError(
            f"checkpoint {checkpoint} reads {', '.join(found)}, not {topic}: give the query a directory of its own"
        ) from None


def _open(spark: SparkSession, checkpoint: str, *parts: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path("/".join([checkpoint, *parts]))
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path
