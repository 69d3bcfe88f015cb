"""A formatted directory and an archive of Java classes, made once for a version of Kafka and of Java, beside the jars.

Formatting takes a Java program of its own, and most of a start's CPU time is that of loading and verifying thousands of
classes. So one broker is formatted, started and stopped; every later one copies the formatted directory, and takes the
classes from an archive (Java's application class-data sharing): on one core a start takes 2.5 s instead of 6.
"""

import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from local_kafka.distribution import KAFKA_VERSION, Distribution, locked, workspace
from local_kafka.errors import BrokerStartError, LocalKafkaError
from local_kafka.java import Java
from local_kafka.ports import free_port
from local_kafka.properties import broker_properties, open_listeners, render
from local_kafka.storage import keep_log

_FORMAT_SECONDS = 60
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # of the formatted directory; each copy gets one of its own


@dataclass(frozen=True, slots=True)
class Prepared:
    """Java, Kafka's jars, and the directory of what was made of both."""

    java: Java
    distribution: Distribution
    directory: Path
    is_archiving: bool = False  # whether the broker makes the archive

    @property
    def formatted(self) -> Path:
        """A KRaft directory without topics."""
        return self.directory / "formatted"

    @property
    def java_options(self) -> tuple[str, ...]:
        """Options for a broker that makes the archive, or takes its classes from it.

        The archive is not there where Java could not make it, which costs only time; Java ignores one that does not
        fit.
        """
        classes = self.directory / "classes.jsa"
        if self.is_archiving:
            return (f"-XX:ArchiveClassesAtExit={classes}",)
        return (f"-XX:SharedArchiveFile={classes}",) if classes.is_file() else ()


def prepare(
    java: Java, distribution: Distribution, console: Console, run: Callable[[Path, Prepared], None]
) -> Prepared:
    """Make what a start needs, unless it is there; `run` starts and stops a broker in a directory.

    Raises `BrokerStartError` if Kafka could not format a directory.
    """
    made = Prepared(java, distribution, distribution.directory / f"prepared-{java.build}")
    if made.formatted.is_dir():
        return made
    with locked(distribution.directory, console):
        if not made.formatted.is_dir():  # Otherwise another process made it while we waited.
            console.print(f"Preparing Apache Kafka {KAFKA_VERSION}, once …", highlight=False)
            with workspace(made.directory, "prepared-*.tmp-*") as work:
                unfinished = Prepared(java, distribution, work / "made", is_archiving=True)
                _format(unfinished)
                with suppress(LocalKafkaError):  # Without an archive, every start just takes longer.
                    run(work / "broker", unfinished)
                shutil.rmtree(made.directory, ignore_errors=True)
                unfinished.directory.rename(made.directory)
    return made


def _format(made: Prepared) -> None:
    made.directory.mkdir()
    port = free_port()
    controller_port = free_port(taken=[port])
    config, log = made.directory / "format.properties", made.directory / "format.log"
    properties = broker_properties(
        listeners=open_listeners(port, controller_port),
        controller_port=controller_port,
        log_dir=made.formatted,
        overrides={},
    )
    config.write_text(render(properties), encoding="ascii")
    command = [str(made.java.executable), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-cp", made.distribution.classpath]
    command += ["kafka.tools.StorageTool", "format", f"--cluster-id={_CLUSTER_ID}", "-c", str(config)]
    try:
        with log.open("wb") as output:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True, timeout=_FORMAT_SECONDS
            )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise BrokerStartError("Kafka could not format a directory", keep_log(log)) from error
    config.unlink()
    log.unlink()
