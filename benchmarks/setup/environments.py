"""Virtual environments of their own for what comes by pip, in exactly the versions of a file of requirements."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.errors import NotSetUpError
from benchmarks.setup.peers import DIRECTORY

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment in `.bench/NAME`, with what `requirements-NAME.txt` beside this file lists.

    Attributes:
        name: of the environment.
        package: the one in it that everything is about.
    """

    name: str
    package: str

    def fetch(self) -> None:
        """Makes the environment, unless it is there with these versions.

        Raises:
            NotSetUpError: if that fails.
        """
        if self._is_there():
            return
        make = [sys.executable, "-m", "venv", "--clear", str(self._directory)]
        pip = [str(self._directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        for command in (make, [*pip, "install", "--quiet", "--requirement", str(self._wanted)]):
            if subprocess.run(command, check=False).returncode:
                raise NotSetUpError(f"{self.package} could not be installed into {self._directory}: see above")
        listed = subprocess.run([*pip, "list", "--format", "json"], check=True, stdout=subprocess.PIPE).stdout
        versions = {package["name"]: package["version"] for package in json.loads(listed)}
        # Written last: what was broken off is begun anew.
        self._stamp.write_text(json.dumps({"requirements": self._wanted.read_text(), "versions": versions}, indent=2))

    def python(self) -> Path:
        """The environment's interpreter.

        Raises:
            NotSetUpError: if it was not fetched, or with other versions.
        """
        if not self._is_there():
            raise NotSetUpError(f"{self.package} is not there, or in another version: run make bench-setup")
        return self._directory / "bin" / "python"

    def versions(self) -> dict[str, str]:
        """Package → version of all that is in it, as pip said.

        Raises:
            NotSetUpError: if it was not fetched.
        """
        self.python()
        found: dict[str, str] = json.loads(self._stamp.read_text())["versions"]
        return found

    @property
    def _directory(self) -> Path:
        return DIRECTORY / self.name

    @property
    def _stamp(self) -> Path:
        return self._directory / "fetched.json"

    @property
    def _wanted(self) -> Path:
        return _HERE / f"requirements-{self.name}.txt"

    def _is_there(self) -> bool:
        if not self._stamp.exists():
            return False
        requirements: str = json.loads(self._stamp.read_text())["requirements"]
        return requirements == self._wanted.read_text()
