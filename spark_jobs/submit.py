"""The spark-submit line of a component, the process that it starts, and the pipe by which that process stops."""

import contextlib
import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from spark_jobs.errors import SubmitError
from spark_jobs.packages import packages, required_settings

KAFKA_VARIABLE: Final = "ACKER_SPARK_KAFKA_FILE"
"""Names a file of JSON with Kafka's settings, which the driver deletes when it has read it.

Everybody can read a command line, and an environment is that of each process which the driver starts."""

_SETTINGS: Final = "ACKER_KAFKA__"
_SERVERS: Final = f"{_SETTINGS}BOOTSTRAP_SERVERS"
_STOP_SECONDS: Final = 120.0

LIFELINE_VARIABLE: Final = "ACKER_SPARK_LIFELINE"
"""Names the pipe whose end stops the driver.

The submitter holds its end to write, so that it closes even by SIGKILL; a byte before that means a normal stop. It has
a name because the driver is a child of Java, which hands on no descriptors, only the environment. A driver that runs
elsewhere on a cluster does not get the variable, and lives on."""

logger = logging.getLogger("spark_jobs.submit")


@dataclass(frozen=True, slots=True)
class SubmitPlan:
    """What is to be submitted."""

    reference: str  # MODULE:TOPOLOGY
    component: str
    name: str  # of the Spark application
    checkpoint: str
    master: str = "local[*]"
    extra: tuple[str, ...] = ()  # further arguments for spark-submit
    driver: tuple[str, ...] = ()  # further arguments for spark_jobs.main

    def line(self) -> list[str]:
        """The command line, program first."""
        line = [str(_spark_submit()), "--master", self.master, "--name", self.name, "--packages", ",".join(packages())]
        # Spark's own lines would hide ours about each micro-batch.
        for name, value in {**required_settings(), "spark.log.level": "WARN"}.items():
            if name != "spark.jars.packages":
                line += ["--conf", f"{name}={value}"]
        line += [*self.extra, str(Path(__file__).with_name("main.py"))]
        line += ["--topology", self.reference, "--component", self.component, "--checkpoint", self.checkpoint]
        return [*line, *self.driver]


class Submission:
    """A submitted job: a process of spark-submit, whose driver stops between two micro-batches.

    The driver stops as well when this process is gone, however it went, unless it runs elsewhere on a cluster.
    """

    def __init__(self, plan: SubmitPlan, kafka: Mapping[str, Any]) -> None:
        self._plan = plan
        self._kafka = kafka

    def __enter__(self) -> Self:
        line = self._plan.line()
        # Apart from the lifeline's directory, which the driver removes.
        self._files = [tempfile.TemporaryDirectory(prefix="acker-spark-") for _ in range(2)]
        self._lifeline = Lifeline(Path(self._files[0].name))
        settings = Path(self._files[1].name, "kafka.json")
        settings.touch(mode=0o600)
        settings.write_text(json.dumps(dict(self._kafka)))
        # Kafka's settings may be passwords; the driver has them from the file.
        environment = {
            name: value for name, value in os.environ.items() if name == _SERVERS or not name.startswith(_SETTINGS)
        }
        environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable, KAFKA_VARIABLE: str(settings)}
        if self._plan.master.startswith("local"):
            environment["PYSPARK_PYTHON"] = sys.executable
        self._process = subprocess.Popen(
            line,
            env={**environment, LIFELINE_VARIABLE: str(self._lifeline.path)},
            stdin=subprocess.DEVNULL,
            # A Ctrl-C reaches us alone: Java would end at once, in the middle of a micro-batch.
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for directory in self._files:
            directory.cleanup()

    def wait(self) -> int:
        """Waits until the job has ended by itself; returns its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Has the driver finish its micro-batch; ends everything if that takes too long."""
        process = self._process
        is_read = self._lifeline.end()
        if process.poll() is not None:
            return
        if not is_read:
            # The driver has not begun yet, and will stop at once; or it runs elsewhere.
            process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Lifeline:
    """The submitter's end of the pipe, in a new directory for it alone, which the driver removes."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lifeline"
        os.mkfifo(self.path, 0o600)
        # An end to write can only be opened while there is one to read.
        reading = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._writing: int | None = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        os.close(reading)

    def end(self) -> bool:
        """Makes the driver stop; returns whether there is one that reads."""
        if self._writing is None:
            return False
        descriptor, self._writing = self._writing, None
        try:
            os.write(descriptor, b"\n")
        except BrokenPipeError:
            return False
        finally:
            os.close(descriptor)
        return True


def stop_with_submitter(
    stop: Callable[[], object], environment: Mapping[str, str], end: Callable[[int], object] = os._exit
) -> None:
    """Calls `stop` when the other end closes, in a thread; calls `end` if the process is still there 120 s later."""
    if LIFELINE_VARIABLE not in environment:
        return
    path = Path(environment[LIFELINE_VARIABLE])
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        stop()
        return
    os.set_blocking(descriptor, True)
    # The name is not needed any more, and a submitter that is killed does not remove it.
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()

    def watch() -> None:
        last = b""
        while read := os.read(descriptor, 16):
            last = read
        if not last:
            logger.warning("the process that submitted this is gone: stopping")
        stop()
        threading.Event().wait(_STOP_SECONDS)
        end(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _spark_submit() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for package in (spec.submodule_search_locations or []) if spec else []:
        program = Path(package, "bin", "spark-submit")
        if program.exists():
            return program
    raise SubmitError(
        "PySpark is not installed: pip install 'kafka-acker[spark]', or from a wheel pip install './WHEEL[spark]'"
    )
