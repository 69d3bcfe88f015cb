"""The spark-submit line of a component, and the process that it starts."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from spark_jobs.errors import SubmitError
from spark_jobs.lifeline import VARIABLE, Lifeline
from spark_jobs.packages import packages, required_settings

KAFKA_VARIABLE: Final = "ACKER_SPARK_KAFKA_FILE"
"""Where the driver finds Kafka's settings: a file of JSON that it deletes when it has read it.

Everybody can read a command line, and an environment is that of each process which the driver starts."""

_SETTINGS: Final = "ACKER_KAFKA__"
_SERVERS: Final = f"{_SETTINGS}BOOTSTRAP_SERVERS"

_STOP_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class SubmitPlan:
    """What is to be submitted.

    Attributes:
        reference: `MODULE:TOPOLOGY`.
        component: the external spout or bolt to run.
        name: of the Spark application.
        checkpoint: directory of its own.
        master: of Spark.
        extra: further arguments for spark-submit.
        driver: further arguments for the driver, see `spark_jobs.main`.
    """

    reference: str
    component: str
    name: str
    checkpoint: str
    master: str = "local[*]"
    extra: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether everything runs on this machine."""
        return self.master.startswith("local")

    def line(self) -> list[str]:
        """The command line, program first.

        Raises:
            SubmitError: if PySpark is not installed.
        """
        settings = {name: value for name, value in required_settings().items() if name != "spark.jars.packages"}
        line = [str(_spark_submit()), "--master", self.master, "--name", self.name, "--packages", ",".join(packages())]
        for name, value in settings.items():
            line += ["--conf", f"{name}={value}"]
        # Our line about each micro-batch would drown in Spark's own.
        line += ["--conf", "spark.log.level=WARN"]
        line += [*self.extra, str(Path(__file__).with_name("main.py"))]
        line += ["--topology", self.reference, "--component", self.component, "--checkpoint", self.checkpoint]
        return [*line, *self.driver]

    def environment(self, kafka: Path) -> dict[str, str]:
        """What the driver needs besides the environment of this process.

        Args:
            kafka: file of the settings.
        """
        workers = {"PYSPARK_PYTHON": sys.executable} if self.is_local else {}
        return {"PYSPARK_DRIVER_PYTHON": sys.executable, KAFKA_VARIABLE: str(kafka), **workers}


class Submission:
    """A submitted job: a process of spark-submit, whose driver stops between two micro-batches.

    The driver stops as well when this process is gone, however it went, unless it runs elsewhere on a cluster.
    """

    def __init__(self, plan: SubmitPlan, kafka: Mapping[str, Any]) -> None:
        self._plan = plan
        self._kafka = kafka
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        line = self._plan.line()
        self._directory = tempfile.TemporaryDirectory(prefix="acker-spark-")
        # The lifeline's directory is the driver's to delete.
        self._settings = tempfile.TemporaryDirectory(prefix="acker-spark-")
        self._lifeline = Lifeline(Path(self._directory.name))
        settings = Path(self._settings.name, "kafka.json")
        settings.touch(mode=0o600)
        settings.write_text(json.dumps(dict(self._kafka)))
        inherited = {name: value for name, value in os.environ.items() if not _is_kafkas(name)}
        self._process = subprocess.Popen(
            line,
            env={**inherited, **self._plan.environment(settings), VARIABLE: str(self._lifeline.path)},
            stdin=subprocess.DEVNULL,
            # A Ctrl-C reaches us alone: Java would end at once, in the middle of a micro-batch.
            start_new_session=True,
        )
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()
        self._directory.cleanup()
        self._settings.cleanup()

    def wait(self) -> int:
        """Waits until the job has ended by itself; returns its exit code."""
        assert self._process is not None  # noqa: S101 - for the type checker
        return self._process.wait()

    def stop(self) -> None:
        """Has the driver finish its micro-batch; ends everything if that takes too long."""
        process = self._process
        assert process is not None  # noqa: S101 - for the type checker
        is_read = self._lifeline.end()
        if process.poll() is not None:
            return
        if not is_read:
            # The driver has not begun yet, and will see that it need not; or it runs elsewhere.
            process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _is_kafkas(variable: str) -> bool:
    """Whether a variable is one of Kafka's settings, which may be a password; the driver has them from the file."""
    return variable.startswith(_SETTINGS) and variable != _SERVERS


def _spark_submit() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for package in (spec.submodule_search_locations or []) if spec else []:
        found = Path(package, "bin", "spark-submit")
        if found.exists():
            return found
    raise SubmitError("PySpark is not installed: pip install 'kafka-acker[spark]'")
