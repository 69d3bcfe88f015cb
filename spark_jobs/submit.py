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
from typing import Any, Final, Self

from spark_jobs.errors import SubmitError
from spark_jobs.lifeline import VARIABLE, Lifeline
from spark_jobs.packages import packages, required_settings

KAFKA_VARIABLE: Final = "ACKER_SPARK_KAFKA_FILE"
"""Names a file of JSON with Kafka's settings, which the driver deletes when it has read it.

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

    def line(self) -> list[str]:
        """The command line, program first.

        Raises:
            SubmitError: if PySpark is not installed.
        """
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
            env={**environment, VARIABLE: str(self._lifeline.path)},
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


def _spark_submit() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for package in (spec.submodule_search_locations or []) if spec else []:
        program = Path(package, "bin", "spark-submit")
        if program.exists():
            return program
    raise SubmitError("PySpark is not installed: pip install 'kafka-acker[spark]'")
