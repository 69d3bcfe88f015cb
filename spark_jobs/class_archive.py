"""An archive of a driver's Java classes, with which a driver needs a quarter less CPU time to start.

It uses Java's application class-data sharing. Java ignores an archive of another version of Java or Spark.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_jobs.errors import SubmitError
from spark_jobs.packages import local_settings, spark_submit

_MASTER: Final = "local[2]"
_SETTINGS: Final = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
_MICRO_BATCHES: Final = 2
_LOOK_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 600
# Java would log each class that it does not archive, and an archive that it ignores.
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive_in(directory: Path) -> Path:
    """The path of the archive for the installed PySpark in a directory."""
    return directory / f"spark-{pyspark.__version__}.jsa"


def archive_option(archive: Path) -> str:
    """The Java options of a driver that uses an archive."""
    return f'"-XX:SharedArchiveFile={archive}" {_QUIET}'


def make_archive(archive: Path) -> None:
    """Runs a streaming query in Spark, and archives the classes that it loads; takes half a minute.

    Raises:
        SubmitError: if the query failed, or Java made no archive.
        OSError: if the directory cannot be written.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{archive.stem}-", dir=archive.parent) as work:
        made = Path(work, archive.name)
        line = [str(spark_submit()), "--master", _MASTER]
        line += ["--driver-java-options", f'"-XX:ArchiveClassesAtExit={made}" {_QUIET}']
        for name, value in {**_SETTINGS, **local_settings(_MASTER)}.items():
            line += ["--conf", f"{name}={value}"]
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        try:
            done = subprocess.run(
                [*line, __file__],
                env={**os.environ, **python},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=_LONGEST_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SubmitError(
                f"Spark has not ended after {_LONGEST_SECONDS} s: try again on a less busy machine"
            ) from error
        if done.returncode or not made.exists():
            last = done.stdout.strip().rpartition("\n")[2]
            raise SubmitError(f"Spark ended with exit code {done.returncode} and made no archive: {last}")
        made.replace(archive)


def _unchanged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _micro_batch(rows: DataFrame, _batch_id: int) -> None:
    parts = rows.select(F.explode(F.split(F.col("value").cast("string"), "")).alias("part"), "timestamp")
    parts.mapInArrow(_unchanged, parts.schema).groupBy("part").count().collect()


def _run_query() -> None:
    spark = SparkSession.builder.appName("class-archive").getOrCreate()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).option("numPartitions", 2).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = rows.writeStream.option("checkpointLocation", checkpoint).foreachBatch(_micro_batch).start()
        while query.lastProgress is None or query.lastProgress.batchId < _MICRO_BATCHES:
            query.awaitTermination(_LOOK_SECONDS)  # type: ignore[arg-type]  # it takes fractions
        query.stop()
    spark.stop()


if __name__ == "__main__":
    _run_query()
