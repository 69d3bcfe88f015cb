"""The files that a broker starts from, made once and cached: Kafka's jars, and files for a version of Java.

The jars come from Maven Central, as `kafka-jars.txt` lists them; their directory is complete or not there at all.

Formatting a directory takes a Java program of its own, and most of a start's CPU time is that of loading and verifying
thousands of classes. So one broker is formatted, started and stopped; every later one copies the formatted directory,
and takes the classes from an archive (Java's application class-data sharing): on one core a start takes 2.5 s instead
of 6.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from local_kafka.errors import BrokerStartError, DownloadError, LocalKafkaError
from local_kafka.java import Java
from local_kafka.maven import central, download, listed
from local_kafka.process import keep_log
from local_kafka.properties import broker_properties, render

KAFKA_VERSION = "4.1.1"
CACHE_VARIABLE = "ACKER_LOCAL_KAFKA__CACHE"
REPOSITORY_VARIABLE = "ACKER_LOCAL_KAFKA__REPOSITORY"

_LIST = Path(__file__).parent / "kafka-jars.txt"
_MANIFEST = "jars.json"
_DOWNLOAD_MEGABYTES = 43


def is_complete(jars: Path) -> bool:
    """Whether a directory has every jar that this version of the package needs, each with the size of the download."""
    try:
        sizes = json.loads((jars / _MANIFEST).read_text(encoding="utf-8"))
        return set(sizes) == jar_names() and all((jars / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, TypeError):
        return False


@cache
def _jars() -> dict[str, str]:
    return listed(_LIST.read_text(encoding="utf-8"))


def jar_names() -> frozenset[str]:
    """The file names of all jars."""
    return frozenset(Path(path).name for path in _jars())


def cache_root(environ: Mapping[str, str]) -> Path:
    """The directory that holds a folder for each version of Kafka."""
    if chosen := environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    # The XDG specification has relative paths ignored.
    xdg = environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache") / "kafka-acker"


def provide_jars(console: Console, environ: Mapping[str, str] | None = None) -> Path:
    """The directory of Kafka's jars in the cache; downloads them first where they are missing or damaged.

    Settings are those of the environment of this process unless given. Raises `DownloadError`.
    """
    environ = os.environ if environ is None else environ
    root = cache_root(environ).absolute()
    jars = root / f"kafka-{KAFKA_VERSION}"
    if is_complete(jars):
        return jars
    try:
        root.mkdir(parents=True, exist_ok=True)
        with locked(jars, console):
            if not is_complete(jars):  # Otherwise another process downloaded them while we waited.
                _download(jars, console, environ.get(REPOSITORY_VARIABLE, ""))
    except OSError as error:
        raise DownloadError(
            f"Apache Kafka's jars could not be stored under {root}: {error}. "
            f"Make room there, or choose another directory with {CACHE_VARIABLE}."
        ) from error
    return jars


@contextmanager
def locked(directory: Path, console: Console) -> Iterator[None]:
    """Hold the lock of a directory of the cache, which the kernel releases when its holder dies."""
    with directory.with_name(f"{directory.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print(
                f"Another process is setting up Apache Kafka {KAFKA_VERSION}; waiting for it.", highlight=False
            )
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def workspace(target: Path, leftovers: str) -> Iterator[Path]:
    """A directory in which the holder of the lock makes `target`; `leftovers` matches those of killed processes."""
    for leftover in target.parent.glob(leftovers):
        shutil.rmtree(leftover, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f"{target.name}.tmp-", dir=target.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download(target: Path, console: Console, repository: str) -> None:
    started = time.monotonic()
    with workspace(target, f"{target.name}.tmp-*") as work:
        jars = work / "jars"
        jars.mkdir()
        try:
            with _progress(console) as advance:
                for _ in download(_jars(), jars, repository or central()):
                    advance()
        except ModuleNotFoundError as error:
            raise DownloadError(
                "Apache Kafka's jars are downloaded from Maven Central by the extra [local], which is not installed: "
                "pip install 'kafka-acker[local]', or from a wheel pip install './WHEEL[local]'; "
                f"or set {REPOSITORY_VARIABLE} to the address of another Maven repository"
            ) from error
        except (OSError, ValueError) as error:
            raise DownloadError(_explain(error, repository)) from error
        sizes = {jar.name: jar.stat().st_size for jar in jars.iterdir()}
        (jars / _MANIFEST).write_text(json.dumps(sizes, indent=1, sort_keys=True), encoding="utf-8")
        if target.exists():
            target.rename(work / "damaged")
        jars.rename(target)
    console.print(f"Downloaded Apache Kafka {KAFKA_VERSION} in {time.monotonic() - started:.0f} s.", highlight=False)


def _explain(error: Exception, repository: str) -> str:
    return (
        f"Apache Kafka {KAFKA_VERSION} could not be downloaded from {repository or 'Maven Central'}: {error}. It is "
        f"downloaded once ({_DOWNLOAD_MEGABYTES} MB), so connect and try again; behind a proxy set "
        "HTTPS_PROXY=http://HOST:PORT, for certificates of your own SSL_CERT_FILE; for a mirror set "
        f"{REPOSITORY_VARIABLE} to its address; or copy the cache ({CACHE_VARIABLE}) from another machine."
    )


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[], None]]:
    """Show how many jars have come, a bar on a terminal and lines elsewhere; yields what to call for each jar."""
    total, come = len(jar_names()), 0
    title = f"Downloading Apache Kafka {KAFKA_VERSION}, once ({_DOWNLOAD_MEGABYTES} MB)"
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)

        def advance() -> None:
            nonlocal come
            come += 1
            bar.advance(task)
            if not console.is_terminal and come % 10 == 0:
                console.print(f"  {come} of {total} jars", highlight=False)

        if not console.is_terminal:
            console.print(f"{title} …", highlight=False)
        yield advance


_FORMAT_SECONDS = 60
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # of the formatted directory; each copy gets one of its own


@dataclass(frozen=True, slots=True)
class Prepared:
    """Java, the directory of Kafka's jars, and that of what was made of both."""

    java: Java
    jars: Path
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


def prepare(java: Java, jars: Path, console: Console, run: Callable[[Path, Prepared], None]) -> Prepared:
    """Make what a start needs, unless it is there; `run` starts and stops a broker in a directory.

    Raises `BrokerStartError` if Kafka could not format a directory.
    """
    made = Prepared(java, jars, jars / f"prepared-{java.build}")
    if made.formatted.is_dir():
        return made
    with locked(jars, console):
        if not made.formatted.is_dir():  # Otherwise another process made it while we waited.
            console.print(f"Preparing Apache Kafka {KAFKA_VERSION}, once …", highlight=False)
            with workspace(made.directory, "prepared-*.tmp-*") as work:
                unfinished = Prepared(java, jars, work / "made", is_archiving=True)
                _format(unfinished)
                with suppress(LocalKafkaError):  # Without an archive, every start just takes longer.
                    run(work / "broker", unfinished)
                shutil.rmtree(made.directory, ignore_errors=True)
                unfinished.directory.rename(made.directory)
    return made


def _format(made: Prepared) -> None:
    made.directory.mkdir()
    config, log = made.directory / "format.properties", made.directory / "format.log"
    # Nothing listens while a directory is formatted, so any ports will do.
    properties = broker_properties(port=1, controller_port=2, log_dir=made.formatted, overrides={})
    config.write_text(render(properties), encoding="ascii")
    command = [str(made.java.executable), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{made.jars}/*"]
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
