"""A topology that is started again when its code changes: `acker run --reload`."""

import importlib
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final

from acker_cli.errors import OURS, CliError
from acker_cli.processes.running import LOOK_SECONDS, RunPlan
from kafka_clients.errors import AckerError
from spout_sdk import Topology

_INSTALLED: Final = "site-packages"

_Stamp = tuple[int, int] | None  # time of the last change, and size, of a file; None without the file


class SourceWatch:
    """Imports a topology, and imports it again, and follows the files of its modules.

    These are the modules that are imported from a directory after this is made. After an error all modules beside them
    count as well, because a module that was not imported may have it.

    Args:
        directory: of the modules.
        load: imports the topology.

    Attributes:
        changed: the files that `has_changed` has found.
    """

    def __init__(self, directory: Path, load: Callable[[str], Topology]) -> None:
        self._directory, self._load = directory, load
        self._imported_before = frozenset(sys.modules)
        self._stamps: dict[Path, _Stamp] = {}
        self._seen: dict[Path, _Stamp] = {}  # in the latest look
        self._folders: set[Path] = set()  # where all modules count
        self.changed: list[str] = []

    def load(self, reference: str) -> Topology:
        """Imports the topology, and all modules of the directory again.

        Raises:
            TopologyError: as `load_topology` does.
        """
        # Compiled code counts as that of a source of the same second and size; worker processes read the variable.
        sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"
        for name, _ in [*self._modules()]:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            topology = self._load(reference)
        except Exception:
            files = {*self._stamps, *self._files()}
            self._folders = {self._directory, *(file.parent for file in files)}
            self._follow({*files, *self._beside()})
            raise
        self._folders = set()
        self._follow(self._files())
        return topology

    def has_changed(self) -> bool:
        """Whether files have changed since the import, and not since the look before, as while they are written."""
        before, self._seen = self._seen, {file: _stamp(file) for file in {*self._stamps, *self._beside()}}
        changed = [file for file, stamp in self._seen.items() if stamp != self._stamps.get(file)]
        self.changed = sorted(str(file.relative_to(self._directory)) for file in changed)
        return bool(changed) and before == self._seen

    def _follow(self, files: Collection[Path]) -> None:
        # What was seen before the import is what was imported, or is older.
        self._stamps = self._seen = {file: self._seen.get(file) or _stamp(file) for file in files}

    def _beside(self) -> set[Path]:
        return {file for folder in self._folders for file in folder.glob("*.py")}

    def _files(self) -> set[Path]:
        return {path for _, path in self._modules() if path.suffix == ".py"}

    def _modules(self) -> Iterator[tuple[str, Path]]:
        """The names of the modules and packages, with their files, or the folders of packages without a file."""
        for name, module in [*sys.modules.items()]:
            if name in self._imported_before or name.partition(".")[0] in OURS:
                continue
            path = _path(module)
            if path is not None and path.is_relative_to(self._directory) and _INSTALLED not in path.parts:
                yield name, path


def _path(module: Any) -> Path | None:
    found = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    return None if found is None else Path(found)


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def run_reloading(
    watch: SourceWatch,
    plan: RunPlan | None,
    load: Callable[[], RunPlan],
    run: Callable[[RunPlan], bool],
    note: Callable[[str], object],
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Runs a topology until it is stopped, and starts it again after each change of its files.

    Args:
        watch: follows the files.
        plan: the first one.
        load: loads the plan again, with the watch.
        run: returns True if the topology is stopped, and False when files have changed.
        note: prints a line.
        pause: waits for some seconds.
    """
    while True:
        try:
            if run(plan or load()):
                return
        except (AckerError, CliError) as error:
            note(f"{error}\nnothing runs until a file is saved")
            while not watch.has_changed():
                pause(LOOK_SECONDS)
        note(f"{', '.join(watch.changed)} changed: starting again")
        plan = None
