"""Spark's Python daemon, for `spark.python.daemon.module`: its workers have our modules from the fork.

Otherwise each worker imports them for its first task, 0.7 s of CPU time. Only where workers run in the environment of
the driver, as those of a `local` master do.
"""

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import spark_jobs.delivering
import spark_jobs.inbox  # noqa: F401
from spark_jobs.python_worker import prepare

if __name__ == "__main__":
    prepare()
    manager()
