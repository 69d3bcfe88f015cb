"""The cluster of `docker-compose.yml` under its own project name: start, commands, removal."""

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from tests.waiting import eventually

ROOT: Final = Path(__file__).parents[2]
# The same for each run of this checkout, so that what a killed run left behind is removed by the next.
NAME: Final = f"acker-test-{zlib.crc32(str(ROOT).encode()):08x}"
NETWORK: Final = f"{NAME}_default"
_FILES: Final = ("docker-compose.yml", "tests/cluster/compose.test.yml")
_EACH: Final = ("--profile", "*")
_TAIL: Final = "60"


@dataclass(frozen=True)
class Container:
    """A container as compose lists it."""

    id: str
    name: str
    service: str
    state: str
    health: str
    exit_code: int

    @property
    def is_well(self) -> bool:
        return self.exit_code == 0 if self.state == "exited" else self.health in ("healthy", "")


class Project:
    """Commands of docker on one compose project.

    Args:
        files: compose files in addition to the ones of every test.
        environment: what `.env.example` lists.
        name: of the project.
    """

    def __init__(
        self, files: Sequence[str] = (), environment: Mapping[str, str] | None = None, name: str = NAME
    ) -> None:
        self._line = ["docker", "compose", "--project-name", name, "--env-file", os.devnull]
        for file in (*_FILES, *files):
            self._line += ["--file", str(ROOT / file)]
        image = os.environ.get("ACKER_IMAGE", "kafka-acker:test")
        self.environment = {"ACKER_IMAGE": image, **(environment or {})}

    def compose(self, *arguments: str, seconds: float = 300) -> str:
        """The output of `docker compose`; raises if it fails."""
        done = self.attempt(*arguments, seconds=seconds)
        assert done.returncode == 0, f"docker compose {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def attempt(self, *arguments: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
        """Runs `docker compose`, and ignores its exit code."""
        return self._run([*self._line, *arguments], seconds)

    def docker(self, *arguments: str, seconds: float = 120) -> str:
        """The output of `docker`; raises if it fails."""
        done = self._run(["docker", *arguments], seconds)
        assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def containers(self, *services: str) -> list[Container]:
        """Those of some services, or all, ended ones included."""
        listed = [json.loads(line) for line in self.compose(*_EACH, "ps", "--all", "--format", "json").splitlines()]
        return [
            Container(row["ID"], row["Name"], row["Service"], row["State"], row["Health"], row["ExitCode"])
            for row in sorted(listed, key=lambda row: row["Name"])
            if not services or row["Service"] in services
        ]

    def inspected(self, container: Container) -> dict[str, Any]:
        """The output of `docker inspect` of a container."""
        found: dict[str, Any] = json.loads(self.docker("inspect", container.id))[0]
        return found

    def log(self, container: Container) -> str:
        """The log of a container, across restarts."""
        done = self._run(["docker", "logs", container.id], 60)
        return done.stdout + done.stderr

    def await_health(self, container: Container) -> None:
        """Waits until a container is healthy."""
        look = ("inspect", "--format", "{{.State.Health.Status}}", container.id)
        eventually(lambda: self.docker(*look).strip() == "healthy", f"{container.name} is healthy", 120)

    def python(self, service: str, script: str) -> str:
        """The output of a script in a container of a service."""
        return self.compose("exec", "--no-TTY", service, "python", "-c", script)

    def remove(self) -> None:
        """Ends everything, and removes it with its volumes."""
        self._run([*self._line, *_EACH, "down", "--volumes", "--remove-orphans", "--timeout", "5"], 180)

    def show(self, output: TextIO) -> None:
        """Prints the state of all containers, and the last log lines of unhealthy ones, or of all."""
        output.write(self.attempt(*_EACH, "ps", "--all").stdout)
        everything = self.containers()
        ill = [each for each in everything if not each.is_well or self.inspected(each)["RestartCount"]]
        for container in ill or everything:
            done = self._run(["docker", "logs", "--tail", _TAIL, container.id], 60)
            output.write(f"---- {container.name}\n{done.stdout}{done.stderr}\n")

    def _run(self, line: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            line,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            # Ctrl-C is for the tests, which then tidy up with just these commands.
            start_new_session=True,
        )


@contextmanager
def running(
    *services: str, files: Sequence[str] = (), environment: Mapping[str, str] | None = None, name: str = NAME
) -> Iterator[Project]:
    """Starts services and their dependencies, and removes all of them at the end; adds their logs to an exception."""
    project = Project(files, environment, name)
    project.remove()
    try:
        project.compose("up", "--detach", "--no-build", *services, seconds=600)
        yield project
    except BaseException:
        project.show(sys.stderr)
        raise
    finally:
        project.remove()
