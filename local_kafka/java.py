"""The Java runtime that runs the broker."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local_kafka.errors import JavaNotFoundError, JavaTooOldError

MIN_VERSION = 17  # the oldest Java that Kafka 4's broker runs on

_VERSION = re.compile(r'version "((?P<feature>\d+)(?:\D+(?P<minor>\d+))?[^"]*)"')
_BUILD = re.compile(r"^\s*java\.vm\.version = (?P<build>.+?)\s*$", re.MULTILINE)
_HOME = re.compile(r"^\s*java\.home = (?P<home>.+?)\s*$", re.MULTILINE)
_REMEDY = (
    f"Install Java {MIN_VERSION} or newer (Debian: apt-get install openjdk-17-jre-headless, macOS: brew install "
    "openjdk) or point JAVA_HOME at one; a cluster that runs elsewhere needs none: ACKER_KAFKA__BOOTSTRAP_SERVERS."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime."""

    executable: Path
    version: int  # its feature release: 17 for 17.0.15
    build: str  # its exact version, in characters that a file name may have


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Find a Java runtime that is new enough: that of `JAVA_HOME` first, then the one on `PATH`.

    Looks in the environment of this process unless given. Raises `JavaNotFoundError` if there is none, or none that
    runs, and `JavaTooOldError` if all are older than Kafka needs.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME", "")
    places = {
        f"JAVA_HOME ({home or 'not set'})": str(Path(home) / "bin") if home else "",
        "PATH": environ.get("PATH", ""),
    }
    seen: list[str] = []
    too_old = False
    for place, directories in places.items():
        executable = shutil.which("java", path=directories) if directories else None
        java = None if executable is None else _ask(executable)
        if executable is None:
            seen.append(f"{place}: no java")
        elif java is None:
            seen.append(f"{place}: {executable} does not run")
        elif java.version < MIN_VERSION:
            too_old = True
            seen.append(f"{place}: {executable} is Java {java.version}")
        else:
            return java
    looked = "; ".join(seen)
    if too_old:
        raise JavaTooOldError(f"Apache Kafka needs Java {MIN_VERSION} or newer. Found {looked}. {_REMEDY}")
    raise JavaNotFoundError(f"Apache Kafka needs Java, and none was found. Searched: {looked}. {_REMEDY}")


def _ask(executable: str) -> Java | None:
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    exact = _VERSION.search(answer.stdout)
    if answer.returncode != 0 or exact is None:
        return None
    # 8 for `1.8.0_392`, 17 for `17.0.15`, 25 for `25-ea`.
    first, second = exact["feature"], exact["minor"]
    version = int(second if first == "1" and second else first)
    # `java` may be a version manager's script, which would be ended in place of Java: take the runtime's own binary.
    home = _HOME.search(answer.stdout)
    binary = Path(home["home"]) / "bin" / "java" if home else None
    runtime = binary if binary is not None and binary.is_file() else Path(executable)
    build = (_BUILD.search(answer.stdout) or exact)[1]
    return Java(runtime, version, re.sub(r"[^\w.+-]", "_", build))
