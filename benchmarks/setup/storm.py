"""Apache Storm, and the programs that measure it, by Maven from the repositories that it is set up for."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.errors import NotSetUpError
from benchmarks.setup.peers import DIRECTORY, Peer
from local_kafka.java import find_java

SOURCES: Final = Path(__file__).resolve().parents[1] / "storm"
"""The programs; its `pom.xml` pins Storm's version."""
_BUILT: Final = DIRECTORY / "storm"
ACKER_WINDOW: Final = "AckerWindow"
WORD_COUNT: Final = "WordCount"


def fetch() -> None:
    """Fetches Storm and compiles the programs.

    Raises:
        NotSetUpError: if there is no Maven, or it fails.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise NotSetUpError("No `mvn` found, which fetches Apache Storm. Install Apache Maven 3.6 or newer")
    command = [maven, "--batch-mode", "--quiet", "--file", str(SOURCES / "pom.xml")]
    # What an older program or version left must not be found again.
    shutil.rmtree(_BUILT, ignore_errors=True)
    command += [f"-Dbench.directory={_BUILT}", "compile", "dependency:copy-dependencies"]
    if subprocess.run(command, check=False).returncode:
        raise NotSetUpError("Maven could not fetch Apache Storm or compile its programs: see above")


def require() -> None:
    """Raises `NotSetUpError` if Storm was not fetched."""
    if not all((_BUILT / "classes" / f"{program}.class").exists() for program in (ACKER_WINDOW, WORD_COUNT)):
        raise NotSetUpError("Apache Storm is not there, or in part: run make bench-setup")


def program(name: str, heap_mb: int, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command that runs a program.

    Args:
        name: of its class.
        heap_mb: of the JVM, in megabytes, from start to end.
        arguments: of the program.
        options: further ones of the JVM.

    Raises:
        NotSetUpError: if it was not fetched.
    """
    require()
    class_path = f"{_BUILT / 'classes'}:{_BUILT / 'jars'}/*"
    # G1 is what Java takes by itself on any machine with two processors.
    fixed = [f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", "-XX:+UseG1GC"]
    fixed.append(f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.properties'}")
    return [str(find_java().executable), *fixed, *options, "-cp", class_path, name, *arguments]


PEER: Final = Peer("storm", fetch)
