"""Faults of processes and of the embedded broker, drawn by a seed."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from acker_cli.errors import ProcessError
from local_kafka import LocalKafka

_PAUSES: Final = (1.0, 5.0, 15.0)
"""How long a process is suspended, in seconds: less than, about as long as, and longer than a session of its group."""
_OUTAGES: Final = (0.0, 2.0, 10.0)
"""How long a killed broker is away, in seconds."""
_START_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.05
# `cat` ends with the pipe: when the fault ends, or when this process does, even if it is killed.
_CONTINUE: Final = 'cat; kill -CONT "$@" 2>/dev/null'

End = Callable[[], object]
"""Ends a fault."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A fault that may be drawn.

    Attributes:
        name: such as `kill split`.
        seconds: for how long it lasts; one of these is drawn.
        begin: begins it, and returns the function that ends it. It may draw the processes.
    """

    name: str
    seconds: tuple[float, ...]
    begin: Callable[[random.Random], End]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was drawn: it begins `after` seconds, and lasts for `seconds`."""

    kind: FaultKind
    after: float
    seconds: float
    seed: int

    def happen(self, wait: Callable[[float], object]) -> None:
        """Begins it, calls `wait` with its seconds, and ends it, also where `wait` raises."""
        end = self.kind.begin(random.Random(self.seed))  # noqa: S311
        try:
            wait(self.seconds)
        finally:
            end()


class Faults:
    """Draws faults: a target, one of its kinds of faults, and the times. Equal seeds draw equal faults.

    Args:
        seed: of what is drawn.
        targets: the kinds of each target; a target that is in it twice is drawn twice as often.
        interval: mean of the seconds between two faults.
    """

    def __init__(self, seed: int, targets: Sequence[Sequence[FaultKind]], interval: float) -> None:
        self._rng = random.Random(seed)  # noqa: S311
        self._targets = targets
        self._interval = interval

    def next(self) -> Fault:
        """The next fault."""
        rng = self._rng
        kind = rng.choice(rng.choice(self._targets))
        return Fault(kind, rng.uniform(0.0, 2 * self._interval), rng.choice(kind.seconds), rng.getrandbits(64))


def process_faults(target: str, pids: Callable[[], list[int]], *, together: bool = False) -> list[FaultKind]:
    """The faults of one of the processes with these ids, or of all of them `together`.

    SIGKILL, SIGSTOP for some seconds, and SIGTERM, as in a rolling update. The supervisor of the processes has to start
    them again.
    """

    def victims(rng: random.Random) -> list[int]:
        running = running_pids(target, pids)
        return running if together else [rng.choice(running)]

    return [
        FaultKind(f"kill {target}", (0.0,), lambda rng: signalled(victims(rng), signal.SIGKILL)),
        FaultKind(f"suspend {target}", _PAUSES, lambda rng: suspended(victims(rng))),
        FaultKind(f"terminate {target}", (0.0,), lambda rng: signalled(victims(rng), signal.SIGTERM)),
    ]


def broker_faults(kafka: LocalKafka) -> list[FaultKind]:
    """SIGKILL of the embedded broker, and SIGSTOP."""

    def kill(_rng: random.Random) -> End:
        kafka.kill()
        return kafka.start

    def suspend(_rng: random.Random) -> End:
        return suspended([] if kafka.pid is None else [kafka.pid])

    return [FaultKind("kill broker", _OUTAGES, kill), FaultKind("suspend broker", _PAUSES, suspend)]


def running_pids(target: str, pids: Callable[[], list[int]]) -> list[int]:
    """The ids of the processes of a target, once there are any: one that has ended starts again after a while."""
    deadline = time.monotonic() + _START_SECONDS
    while not (running := sorted(pids())):
        if time.monotonic() > deadline:
            raise ProcessError(f"{target}: no process has run for {_START_SECONDS:g} s; see the log")
        time.sleep(_LOOK_SECONDS)
    return running


def signalled(pids: Sequence[int], number: signal.Signals) -> End:
    """Sends a signal to processes; some may have ended. The fault has no end."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return lambda: None


def suspended(pids: Sequence[int]) -> End:
    """Sends SIGSTOP to processes; the returned function, or the end of this process, sends SIGCONT."""
    line = ["sh", "-c", _CONTINUE, "sh", *map(str, pids)]
    continuing = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    signalled(pids, signal.SIGSTOP)

    def end() -> None:
        assert continuing.stdin is not None  # noqa: S101 - because stdin=PIPE
        continuing.stdin.close()
        continuing.wait()

    return end
