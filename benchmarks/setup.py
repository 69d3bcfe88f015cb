"""Fetches the peers into `.bench`, in pinned versions; what is there already stays.

    python -m benchmarks.setup              # all, as `make bench-setup` does
    python -m benchmarks.setup storm plots

Python peers get a virtual environment each, of `requirements/NAME.txt`; Storm and its programs come by Maven, of
`storm/pom.xml`.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness import BenchmarkError
from local_kafka.java import find_java

_HERE: Final = Path(__file__).parent
_FETCHED: Final = _HERE.parent / ".bench"
_STORM: Final = _FETCHED / "storm"
ACKER_WINDOW: Final = "AckerWindow"
WORD_COUNT: Final = "WordCount"
PEERS: Final = _HERE / "peers"


class Environment:
    """A virtual environment in `.bench/NAME`, and the package that it is about."""

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self.package = package
        self._directory = _FETCHED / name
        self._stamp = self._directory / "fetched.json"
        self._requirements = _HERE / "requirements" / f"{name}.txt"

    def fetch(self) -> None:
        """Makes it, unless it is there with these versions."""
        if self._is_there():
            return
        make = [sys.executable, "-m", "venv", "--clear", str(self._directory)]
        pip = [str(self._directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        for command in (make, [*pip, "install", "--quiet", "--requirement", str(self._requirements)]):
            if subprocess.run(command, check=False).returncode:
                raise BenchmarkError(f"{self.package} could not be installed into {self._directory}: see above")
        listed = subprocess.run([*pip, "list", "--format", "json"], check=True, stdout=subprocess.PIPE).stdout
        versions = {package["name"]: package["version"] for package in json.loads(listed)}
        # Written last: an installation that was interrupted begins again.
        stamp = {"requirements": self._requirements.read_text(), "versions": versions}
        self._stamp.write_text(json.dumps(stamp, indent=2))

    def python(self) -> Path:
        """Its interpreter."""
        if not self._is_there():
            raise BenchmarkError(f"{self.package} is not there, or in another version: run make bench-setup")
        return self._directory / "bin" / "python"

    def versions(self) -> dict[str, str]:
        """The version of the package, and that of its Kafka client."""
        self.python()
        installed: dict[str, str] = json.loads(self._stamp.read_text())["versions"]
        client = "confluent-kafka"
        of_client = {f"{client} of {self.package}": installed[client]} if client in installed else {}
        return {self.package: installed[self.package], **of_client}

    def _is_there(self) -> bool:
        expected = self._requirements.read_text()
        return self._stamp.exists() and bool(json.loads(self._stamp.read_text())["requirements"] == expected)


PLOTS: Final = Environment("plots", "matplotlib")
FRAMEWORKS: Final = {name: Environment(name, name) for name in ("quixstreams", "bytewax", "pystorm", "faust-streaming")}
# A loop of confluent-kafka needs no framework: it runs where Bytewax does.
FRAMEWORKS["loop"] = FRAMEWORKS["bytewax"]


def peer_program(name: str, *arguments: str) -> list[str]:
    """The command that runs the program of a framework in its environment."""
    return [str(FRAMEWORKS[name].python()), "-m", f"benchmarks.peers.{name.partition('-')[0]}_peer", *arguments]


def fetch_storm() -> None:
    """Fetches Storm and compiles the programs."""
    maven = shutil.which("mvn")
    if maven is None:
        raise BenchmarkError("No `mvn` found, which fetches Apache Storm. Install Apache Maven 3.6 or newer")
    command = [maven, "--batch-mode", "--quiet", "--file", str(_HERE / "storm" / "pom.xml")]
    # Files of an older program or version must not be found again.
    shutil.rmtree(_STORM, ignore_errors=True)
    command += [f"-Dbench.directory={_STORM}", "compile", "dependency:copy-dependencies"]
    if subprocess.run(command, check=False).returncode:
        raise BenchmarkError("Maven could not fetch Apache Storm or compile its programs: see above")


def require_storm() -> None:
    """Raises `BenchmarkError` if Storm was not fetched."""
    if not all((_STORM / "classes" / f"{program}.class").exists() for program in (ACKER_WINDOW, WORD_COUNT)):
        raise BenchmarkError("Apache Storm is not there, or in part: run make bench-setup")


def storm_program(name: str, heap_mb: int, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command that runs a program with Storm, in a heap of this size from start to end."""
    require_storm()
    class_path = f"{_STORM / 'classes'}:{_STORM / 'jars'}/*"
    # G1 is what Java takes by itself on any machine with two processors.
    fixed = [f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", "-XX:+UseG1GC"]
    fixed.append(f"-Dlog4j2.configurationFile={_HERE / 'storm' / 'log4j2.properties'}")
    return [str(find_java().executable), *fixed, *options, "-cp", class_path, name, *arguments]


def main() -> None:
    peers: dict[str, Callable[[], None]] = {each.name: each.fetch for each in (PLOTS, *FRAMEWORKS.values())}
    peers["storm"] = fetch_storm
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.setup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", nargs="*", choices=[[], *peers], metavar="PEER", help=f"{', '.join(peers)}; else all")
    for name in parser.parse_args().peer or peers:
        print(f"{name} …", flush=True)
        try:
            peers[name]()
        except BenchmarkError as error:
            sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main()
