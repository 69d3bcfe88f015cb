"""Settings of a Spark session: two packages, limits for payloads of any sender, redaction of secrets."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from spark_jobs.errors import SparkJobError, SubmitError

PACKAGES_VERSIONS: Final = {"4.0": "4.0.0", "4.1": "4.1.1", "4.2": "4.2.0"}
"""Minor version of PySpark → version of the packages.

Mirrors do not have every patch release of the packages, and those of one minor version are compatible."""

_SCALA: Final = "2.13"
_ARTIFACTS: Final = ("spark-sql-kafka-0-10", "spark-avro")
# Dependencies of the packages that every Spark has: a driver and each executor would copy these 62 MB when they start.
_EXCLUDED: Final = (
    *("com.google.code.findbugs:jsr305", "org.apache.hadoop:hadoop-client-api"),
    *("org.apache.hadoop:hadoop-client-runtime", "org.lz4:lz4-java", "at.yawk.lz4:lz4-java"),
    *("org.scala-lang.modules:scala-parallel-collections_2.13", "org.slf4j:slf4j-api", "org.tukaani:xz"),
    "org.xerial.snappy:snappy-java",
)

# Avro believes the length that a payload claims, and allocates it: five bytes could end an executor.
_LONGEST: Final = 16 * 1024 * 1024
AVRO_LIMITS: Final = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={_LONGEST}" for what in ("string", "bytes", "collectionItems")
)
# A micro-batch is kept and dropped as a whole: throughput counts, not pauses, and this is 15 % of it.
_EXECUTOR: Final = f"{AVRO_LIMITS} -XX:+UseParallelGC"
# Spark tells a query that was stopped from one that failed by a recursive pattern, which overflows a common stack.
_DRIVER: Final = f"{_EXECUTOR} -Xss8m"

DRIVER_OPTIONS: Final = "spark.driver.defaultJavaOptions"

REDACTION: Final = r"(?i)secret|password|token|credential|access[.]?key|jaas|keystore[.]key|private key"
"""A pattern of the names and values that Spark redacts in its UI, its event log and the plans that it explains.

Its own pattern knows passwords, but not a private key, or what a password stands in."""

STRING_REDACTION: Final = (
    r'\w*LoginModule required(?: \w+="(?:[^"\\]|\\.)*")+;?|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]+'
    r"|password -> .*?(?=, [\w.]+ -> |\),None)"
)
"""Secrets within the text of a query plan, which shows the options of a stream that has not started."""


def packages() -> tuple[str, ...]:
    """The Maven coordinates of the Kafka connector and of Avro, for `spark.jars.packages`.

    Raises:
        SparkJobError: if the installed PySpark is not supported.
    """
    if (version := PACKAGES_VERSIONS.get(".".join(pyspark.__version__.split(".")[:2]))) is None:
        raise SparkJobError(
            f"PySpark {pyspark.__version__} is installed, but {', '.join(PACKAGES_VERSIONS)} are supported: run "
            "pip install 'kafka-acker[spark]' in this environment"
        )
    return tuple(f"org.apache.spark:{artifact}_{_SCALA}:{version}" for artifact in _ARTIFACTS)


def required_settings() -> dict[str, str]:
    """The Spark settings that a job of ours needs, wherever it runs."""
    return {
        "spark.jars.packages": ",".join(packages()),
        "spark.jars.excludes": ",".join(_EXCLUDED),
        # Spark puts these before the site's own extraJavaOptions, which are left alone.
        DRIVER_OPTIONS: _DRIVER,
        "spark.executor.defaultJavaOptions": _EXECUTOR,
        # Spark adds up the sizes of all columns for each row that it sends to Python, 0.5 µs, and for a column of nulls
        # in linear time, to end a batch at this number of bytes; at this value it does not. 10,000 rows still end one.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.redaction.regex": REDACTION,
        "spark.sql.redaction.string.regex": STRING_REDACTION,
    }


def local_settings(master: str | None) -> dict[str, str]:
    """Further settings for a local master."""
    if not (master or "").startswith("local"):
        return {}
    package = "" if pyspark.__version__.startswith("4.0.") else "checkpointing."
    return {
        # Python workers run in the environment of the driver.
        "spark.python.daemon.module": "spark_jobs.python_daemon",
        # The default starts a process, chmod, for each file on a local disk: 45 ms of each micro-batch.
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
        ),
    }


def check_session(spark: SparkSession) -> None:
    if spark.conf.get("spark.speculation", "false") == "true":
        raise SparkJobError(
            "spark.speculation is true: a speculative copy of a task writes its tuples a second time: each is "
            "processed, and may keep its tree open until it times out; set it to false"
        )


def spark_submit() -> Path:
    """The program of the installed PySpark."""
    spec = importlib.util.find_spec("pyspark")
    for package in (spec.submodule_search_locations or []) if spec else []:
        program = Path(package, "bin", "spark-submit")
        if program.exists():
            return program
    raise SubmitError(
        "PySpark is not installed: pip install 'kafka-acker[spark]', or from a wheel pip install './WHEEL[spark]'"
    )


def session(app: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A Spark session with the packages; for local runs, and for drivers that were started without them.

    Args:
        app: the application's name.
        master: `local[*]` and the like; None leaves it to spark-submit.
        settings: further Spark settings; they win.
    """
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            # Workers on this machine run in this interpreter's environment, not in that of the first python3 found.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in {**required_settings(), **local_settings(master), **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
