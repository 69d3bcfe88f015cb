"""Spark's Python daemon, for `spark.python.daemon.module`: imports our modules before it forks the workers.

Otherwise each worker imports them for its first task, which takes 0.7 s of CPU time. Used with a local master only,
whose workers run in the environment of the driver.
"""

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import spark_jobs.delivering
import spark_jobs.inbox  # noqa: F401
from spark_jobs.python_worker import prepare_process

if __name__ == "__main__":
    prepare_process()
    manager()
