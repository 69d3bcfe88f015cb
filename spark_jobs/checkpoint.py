"""A checkpoint and whom it belongs to.

Offsets, the session and the sequence numbers of the ack batches live in Spark's checkpoint. A file beside Spark's says
which topology and component that is, so that a checkpoint is not taken for another's.
"""

import json
import uuid
from typing import Any, Final

from pyspark.sql import SparkSession

from spark_jobs.errors import CheckpointRefusedError

_MARKER: Final = "kafka-acker.json"
_SPARKS_METADATA: Final = "metadata"


def claim_checkpoint(spark: SparkSession, checkpoint: str, owner: dict[str, Any]) -> None:
    """Writes into a fresh checkpoint to whom it belongs, or checks it.

    Args:
        spark: knows the file systems.
        checkpoint: directory, on any file system that Hadoop knows.
        owner: what must not change.

    Raises:
        CheckpointRefusedError: if it belongs to something else.
    """
    jvm: Any = spark._jvm
    marker = jvm.org.apache.hadoop.fs.Path(checkpoint, _MARKER)
    files = marker.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(marker):
        if files.exists(jvm.org.apache.hadoop.fs.Path(checkpoint, _SPARKS_METADATA)):
            raise CheckpointRefusedError(
                f"checkpoint {checkpoint} was made by another Spark query: give this one a directory of its own"
            )
        # Beside it first: a driver that dies amid this must not leave half a file that no other one can read.
        fresh = jvm.org.apache.hadoop.fs.Path(checkpoint, f".{_MARKER}.{uuid.uuid4().hex}")
        stream = files.create(fresh, True)
        try:
            stream.write(bytearray(json.dumps(owner, sort_keys=True).encode()))
        finally:
            stream.close()
        if files.rename(fresh, marker):
            return
        # Somebody else was faster.
        files.delete(fresh, False)
    stream = files.open(marker)
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CheckpointRefusedError(
            f"{_MARKER} of checkpoint {checkpoint} cannot be read ({error}): give the query a fresh directory"
        ) from error
    if found != owner:
        raise CheckpointRefusedError(
            f"checkpoint {checkpoint} belongs to {_told(found)}, not to {_told(owner)}: its offsets and sequence "
            "numbers would be wrong here, so give the query a directory of its own"
        )


def _told(owner: Any) -> str:
    if not isinstance(owner, dict):
        return repr(owner)
    return ", ".join(f"{name} {value}" for name, value in owner.items())
