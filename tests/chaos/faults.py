"""Faults: what may happen to a process or to the broker, and for how long."""

import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from acker_cli.topology_processes import TopologyProcesses
from local_kafka import LocalKafka

KINDS: Final = (
    *("kill", "kill", "stop"),  # a component
    *("kill acker", "stop acker"),
    *("kill broker", "stop broker", "pause broker"),
)
_PAUSES: Final = (1.0, 5.0, 15.0)
"""How long a process stands still, in seconds: less than, about as long as, and longer than a session."""
_AWAY: Final = (0.0, 2.0, 10.0)
"""How long the broker is away, in seconds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        kind: of fault, such as `kill split`.
        seconds: how long it lasts.
        happen: makes it happen, and returns when it is over.
    """

    kind: str
    seconds: float
    happen: Callable[[], None]


class Faults:
    """Draws faults.

    Args:
        rng: draws.
        broker: of all topologies.
        at_work: the topologies.
        kinds: of `KINDS`; the more often one is named, the more often it happens.
    """

    def __init__(
        self,
        rng: random.Random,
        broker: LocalKafka,
        at_work: Sequence[TopologyProcesses],
        kinds: Sequence[str] = KINDS,
    ) -> None:
        self._rng = rng
        self._kinds = kinds
        self._broker = broker
        self._at_work = at_work
        self._pause = threading.Event()

    def next(self) -> Fault:
        """One of a random kind, at a random place."""
        rng = self._rng
        kind = rng.choice(self._kinds)
        if kind == "pause broker":
            seconds = rng.choice(_PAUSES)
            return Fault(kind, seconds, lambda: self._stand_still([self._broker.pid], seconds))
        if kind.endswith("broker"):
            seconds = rng.choice(_AWAY)
            end = self._broker.kill if kind.startswith("kill") else self._broker.stop
            return Fault(kind, seconds, lambda: self._away(end, seconds))
        processes = rng.choice([each for each in self._at_work if each.ackers is not None or "acker" not in kind])
        if kind.endswith("acker"):
            assert processes.ackers is not None
            pids: list[int | None] = [worker.pid for worker in processes.ackers.workers()]
        else:
            component = rng.choice(["numbers", "split", "sink"])
            pids = [*processes.components.pids()[component]]
            kind = f"{kind} {component}"
        if kind.startswith("kill"):
            return Fault(kind, 0.0, lambda: self._signal(pids, signal.SIGKILL))
        seconds = rng.choice(_PAUSES)
        return Fault(kind, seconds, lambda: self._stand_still(pids, seconds))

    def _away(self, end: Callable[[], None], seconds: float) -> None:
        end()
        self._pause.wait(seconds)
        self._broker.start()

    def _stand_still(self, pids: Sequence[int | None], seconds: float) -> None:
        self._signal(pids, signal.SIGSTOP)
        self._pause.wait(seconds)
        self._signal(pids, signal.SIGCONT)

    def _signal(self, pids: Sequence[int | None], number: signal.Signals) -> None:
        for pid in pids:
            # It may have ended since.
            with suppress(ProcessLookupError):
                if pid is not None:
                    os.kill(pid, number)
