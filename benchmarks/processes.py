"""What the kernel says about processes, CPU time and memory, and what processes are told: their environment."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all its threads, to 10 ms; what ended before counts as 0."""
    try:
        # The name, in brackets, may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def descendants(pids: Iterable[int]) -> list[int]:
    """Processes, and all that they have started and that have not ended."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = list(dict.fromkeys(pids))
    for pid in found:
        found += [child for child in children.get(pid, ()) if child not in found]
    return found


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 if it has ended."""
    return _status(pid, "VmRSS") * 1024


def peak_resident_bytes(pid: int) -> int:
    """Resident memory of a process at its highest so far; 0 if it has ended."""
    return _status(pid, "VmHWM") * 1024


def threads(pid: int) -> int:
    """Threads of a process; 0 if it has ended."""
    return _status(pid, "Threads")


@contextmanager
def environment(**variables: object) -> Iterator[None]:
    """Sets variables of the environment, here and in the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update({name: str(value) for name, value in variables.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _status(pid: int, field: str) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(rf"^{field}:\s+(\d+)", status, re.MULTILINE)
    # A process that has ended and was not waited for has no memory any more.
    return int(found[1]) if found else 0
