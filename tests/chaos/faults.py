"""Faults of a process or of the brokers, and their duration."""

import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tests.chaos.brokers import Brokers
from tests.chaos.targets import Target
from tests.waiting import eventually

PROCESS_FAULTS: Final = ("kill", "kill", "stop", "end", "join", "kill acker", "stop acker")
"""The weights of the kinds; those without a name are faults of a component.

A component is killed, stopped for a while, ended in order, or joined by one more process for a while.
"""
_CLEAN: Final = ("end", "join")
_STAYS: Final = (5.0, 15.0)
"""How long a process that joins stays, in seconds."""
_PAUSES: Final = (1.0, 5.0, 15.0)
"""How long a process is stopped, in seconds: less than, about as long as, and longer than a session."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        kind: of fault, such as `kill split`.
        seconds: how long it lasts.
        happen: makes it happen, and returns when it is over.
        crashes: the topologies that may lose messages by it, with `at_most_once`.
    """

    kind: str
    seconds: float
    happen: Callable[[], None]
    crashes: Sequence[Target] = ()


class Faults:
    """Draws faults: one half of processes, one half of brokers.

    Args:
        rng: draws.
        brokers: of all topologies.
        targets: the topologies.
        only: the one kind to draw; all unless given.
    """

    def __init__(
        self, rng: random.Random, brokers: Brokers, targets: Sequence[Target], only: str | None = None
    ) -> None:
        self._rng = rng
        self._brokers = brokers
        self._targets = targets
        self._only = only
        self._pause = threading.Event()

    def next(self) -> Fault:
        """A fault of a random kind, at a random target."""
        rng = self._rng
        kinds = PROCESS_FAULTS if rng.random() < 0.5 else tuple(self._brokers.faults)
        kind = self._only or rng.choice(kinds)
        if kind in self._brokers.faults:
            seconds = rng.choice(self._brokers.faults[kind])
            tracked = [each for each in self._targets if each.tracked]
            begin, end = self._brokers.fault(kind, rng, rng.choice(tracked).topology)
            return Fault(kind, seconds, lambda: self._last(begin, seconds, end), self._targets)
        targets = [each for each in self._targets if each.tracked or "acker" not in kind]
        if kind in _CLEAN:
            # Nothing excuses a loss then, where trees are not followed.
            targets += 2 * [each for each in targets if not each.tracked]
        target = rng.choice(targets)
        of_sdk = [each for each in target.components if kind not in _CLEAN or each not in target.in_spark]
        component = "acker" if kind.endswith("acker") else rng.choice(of_sdk)
        if kind == "end":
            return Fault(f"{kind} {component}", 0.0, lambda: self._end(target, component))
        if kind == "join":
            seconds = rng.choice(_STAYS)
            return Fault(f"{kind} {component}", seconds, lambda: self._join(target, component, seconds))
        if component != "acker":
            kind = f"{kind} {component}" if component not in target.in_spark else f"{kind} Spark {component}"
        if kind.startswith("kill"):
            return Fault(kind, 0.0, lambda: _signal(self._pids(target, component), signal.SIGKILL), [target])
        seconds = rng.choice(_PAUSES)
        pids: list[int] = []

        def stop() -> None:
            pids.extend(self._pids(target, component))
            _signal(pids, signal.SIGSTOP)

        return Fault(kind, seconds, lambda: self._last(stop, seconds, lambda: _signal(pids, signal.SIGCONT)), [target])

    def _end(self, target: Target, component: str) -> None:
        self._pids(target, component)
        target.end(component)

    def _join(self, target: Target, component: str, seconds: float) -> None:
        with target.joined(component):
            self._pause.wait(seconds)

    def _pids(self, target: Target, component: str) -> list[int]:
        """The processes of a component, once there are any: one that has ended starts again after a while."""
        return eventually(lambda: target.pids(component), f"a process of {component}", 60)

    def _last(self, begin: Callable[[], object], seconds: float, end: Callable[[], object]) -> None:
        try:
            begin()
            self._pause.wait(seconds)
        finally:
            end()


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        # It may have ended since.
        with suppress(ProcessLookupError):
            os.kill(pid, number)
