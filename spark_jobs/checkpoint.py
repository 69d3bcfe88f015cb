"""A Spark checkpoint: the topology and component that own it, and the offsets that its query has planned.

Spark writes the offsets of a micro-batch into `offsets/{batch}` before it runs it, and runs it again with the same ones
unless it was committed.
"""

import json
import uuid
from typing import Any, Final

from pyspark.sql import SparkSession

from spark_jobs.errors import CheckpointRefusedError

_MARKER: Final = "kafka-acker.json"


class _Files:
    """The files of a checkpoint, on any file system that Hadoop knows; by PySpark's gateway to Java, see ADR 39."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._jvm: Any = spark._jvm
        self._root = checkpoint
        self._files = self.path().getFileSystem(spark._jsc.hadoopConfiguration())

    def path(self, *parts: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path("/".join([self._root, *parts]))

    def exists(self, *parts: str) -> bool:
        return bool(self._files.exists(self.path(*parts)))

    def names(self, *parts: str) -> list[str]:
        return [status.getPath().getName() for status in self._files.listStatus(self.path(*parts))]

    def read(self, *parts: str) -> str:
        stream = self._files.open(self.path(*parts))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, name: str, text: str) -> None:
        """Writes a file unless it exists."""
        # Under another name first: a driver that dies here must not leave half a file.
        fresh = self.path(f".{name}.{uuid.uuid4().hex}")
        stream = self._files.create(fresh, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if not self._files.rename(fresh, self.path(name)):
            self._files.delete(fresh, False)


def claim_checkpoint(spark: SparkSession, checkpoint: str, owner: dict[str, Any]) -> None:
    """Marks a new checkpoint with its owner, or checks the owner of an old one."""
    files = _Files(spark, checkpoint)
    if not files.exists(_MARKER):
        if files.exists("metadata"):
            raise CheckpointRefusedError(
                f"checkpoint {checkpoint} was made by another Spark query: give this one a directory of its own"
            )
        files.create(_MARKER, json.dumps(owner, sort_keys=True))
    try:
        marked = json.loads(files.read(_MARKER))
    except ValueError as error:
        raise CheckpointRefusedError(
            f"{_MARKER} of checkpoint {checkpoint} cannot be read ({error}): give the query a fresh directory"
        ) from error
    if marked != owner:
        raise CheckpointRefusedError(
            f"checkpoint {checkpoint} belongs to {_listed(marked)}, not to {_listed(owner)}: its offsets and sequence "
            "numbers would be wrong here, so give the query a directory of its own"
        )


def _listed(owner: Any) -> str:
    if not isinstance(owner, dict):
        return repr(owner)
    return ", ".join(f"{name} {value}" for name, value in owner.items())


def planned_offsets(spark: SparkSession, checkpoint: str, topic: str) -> dict[int, int]:
    """The end of the last micro-batch that was planned, by partition; empty if there was none.

    What lies before may have been delivered, and what lies after was not.
    """
    files = _Files(spark, checkpoint)
    names = files.names("offsets") if files.exists("offsets") else []
    batches = [int(name) for name in names if name.isdigit()]
    if not batches:
        return {}
    # A version, Spark's own metadata, and a line for each source.
    try:
        topics = json.loads(files.read("offsets", str(max(batches))).splitlines()[2])
        return {int(partition): int(offset) for partition, offset in topics[topic].items()}
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointRefusedError(
            f"offsets of batch {max(batches)} in checkpoint {checkpoint} cannot be read ({error!r}): give the query a "
            "fresh directory, it continues from the offsets of its group"
        ) from error
    except KeyError:
        raise CheckpointRefusedError(
            f"checkpoint {checkpoint} reads {', '.join(topics)}, not {topic}: give the query a directory of its own"
        ) from None
