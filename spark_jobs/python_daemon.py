"""Spark's Python daemon, for `spark.python.daemon.module`: imports our modules before it forks the workers.

Otherwise each worker imports them for its first task, which takes 0.7 s of CPU time. Set by this package with a local
master only, whose workers run in the environment of the driver; on a cluster, all machines need the package.

Its workers acknowledge what Java sends at once. Java sends the parts of a task separately, and would wait 40 ms for the
delayed acknowledgement of the first one before it sends the others.
"""

import socket

import pyspark.daemon
import pyspark.worker

import spark_jobs.delivering
import spark_jobs.inbox  # noqa: F401
from spark_jobs.python_worker import prepare_process

_run_task = pyspark.daemon.worker


def run_task(sock: socket.socket, authenticated: bool) -> int:
    """Runs a task; in a worker, which has one connection for all its tasks."""
    if sock.family != socket.AF_UNIX and hasattr(socket, "TCP_QUICKACK"):
        # The system returns to delayed acknowledgements by itself, so once for each task.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    return _run_task(sock, authenticated)


if __name__ == "__main__":
    pyspark.daemon.worker = run_task
    prepare_process()
    pyspark.daemon.manager()
