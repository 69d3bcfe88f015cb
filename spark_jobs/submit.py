"""The spark-submit line of a component, the process that it starts, and the pipe by which that process stops."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from kafka_clients.supervision import stop_at_end_of
from spark_jobs.class_archive import archive_option
from spark_jobs.packages import DRIVER_OPTIONS, local_settings, packages, required_settings, spark_submit

KAFKA_VARIABLE: Final = "ACKER_SPARK_KAFKA_FILE"
"""Names a file of JSON with Kafka's settings, which the driver deletes when it has read it.

Everybody can read a command line, and an environment is that of each process which the driver starts."""

_SETTINGS: Final = "ACKER_KAFKA__"
_SERVERS: Final = f"{_SETTINGS}BOOTSTRAP_SERVERS"
_PREFIX: Final = "acker-spark-"
_STOP_SECONDS: Final = 120.0

PIPE_VARIABLE: Final = "ACKER_SPARK_SUBMITTER_PIPE"
"""Names the pipe that the submitter holds open, and whose first byte or end stops the driver.

It has a name because the driver is a child of Java, which hands on no descriptors, only the environment. A driver that
runs elsewhere on a cluster does not get the variable, and lives on."""

logger = get_logger("spark_jobs.submit")


@dataclass(frozen=True, slots=True)
class SubmitPlan:
    """The arguments of a submission."""

    reference: str  # MODULE:TOPOLOGY
    component: str
    name: str  # of the Spark application
    checkpoint: str
    master: str = "local[*]"
    extra: tuple[str, ...] = ()  # further arguments for spark-submit
    driver: tuple[str, ...] = ()  # further arguments for spark_jobs.main
    archive: Path | None = None  # of Java's classes, for a driver on this machine

    def line(self) -> list[str]:
        """The command line, program first."""
        line = [str(spark_submit()), "--master", self.master, "--name", self.name, "--packages", ",".join(packages())]
        # Spark's own lines would hide ours about each micro-batch.
        settings = {**required_settings(), **local_settings(self.master), "spark.log.level": "WARN"}
        if self.archive is not None:
            settings[DRIVER_OPTIONS] += f" {archive_option(self.archive)}"
        for name, value in settings.items():
            if name != "spark.jars.packages":
                line += ["--conf", f"{name}={value}"]
        line += [*self.extra, str(Path(__file__).with_name("main.py"))]
        line += ["--topology", self.reference, "--component", self.component, "--checkpoint", self.checkpoint]
        return [*line, *self.driver]


@contextmanager
def submission(plan: SubmitPlan, kafka: Mapping[str, Any]) -> Iterator["subprocess.Popen[bytes]"]:
    """A submitted job: a process of spark-submit, whose driver stops between two micro-batches at the end of the block.

    The driver stops as well when this process is gone, however it went, unless it runs elsewhere on a cluster.
    """
    # The driver removes the directory of the pipe.
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as secret, tempfile.TemporaryDirectory(prefix=_PREFIX) as shared:
        settings, pipe = Path(secret, "kafka.json"), Path(shared, "pipe")
        settings.touch(mode=0o600)
        settings.write_text(json.dumps(dict(kafka)))
        # Kafka's settings may be passwords; the driver has them from the file.
        environment = {
            name: value for name, value in os.environ.items() if name == _SERVERS or not name.startswith(_SETTINGS)
        }
        environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable, KAFKA_VARIABLE: str(settings)}
        if plan.master.startswith("local"):
            environment["PYSPARK_PYTHON"] = sys.executable
        os.mkfifo(pipe, 0o600)
        # Open for reading as well: to open it for writing alone would wait for the driver.
        with pipe.open("r+b", buffering=0) as held:
            process = subprocess.Popen(
                plan.line(),
                env={**environment, PIPE_VARIABLE: str(pipe)},
                stdin=subprocess.DEVNULL,
                # A Ctrl-C reaches us alone: Java would end at once, in the middle of a micro-batch.
                start_new_session=True,
            )
            try:
                yield process
            finally:
                held.write(b"\n")
                held.close()
                if process.poll() is None and pipe.exists():
                    # The driver has not begun yet, and will stop at once; or it runs elsewhere.
                    process.terminate()
                try:
                    process.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def stop_with_submitter(
    stop: Callable[[], object], environment: Mapping[str, str], end: Callable[[int], object] = os._exit
) -> None:
    """Calls `stop` when the submitter stops it or has ended; calls `end` if the process still runs 120 s later."""
    if PIPE_VARIABLE not in environment:
        return
    path = Path(environment[PIPE_VARIABLE])
    try:
        # Opening it without O_NONBLOCK would wait for a submitter that has ended.
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        stop()
        return
    os.set_blocking(pipe, True)
    # The name is not needed any more, and a submitter that is killed does not remove it.
    with suppress(OSError):
        path.unlink()
        path.parent.rmdir()
    stop_at_end_of(pipe, stop, _STOP_SECONDS, end)
