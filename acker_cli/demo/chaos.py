"""The kills of the demo: an acker worker and a bolt process, each in the middle of its work."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from acker_cli.processes.acker_pool import AckerSnapshot
from spout_sdk.statistics.stats import Stats

# Shares of all lines between which a kill happens; the second comes when the first is recovered from.
_ACKER_WINDOW: Final = (0.25, 0.4)
_BOLT_WINDOW: Final = (0.5, 0.65)


@dataclass(frozen=True, slots=True)
class Victim:
    pid: int
    role: str


class Chaos:
    """Kills an acker worker and a process of a bolt at random moments while they are busy."""

    def __init__(self, seed: int, bolts: Sequence[str], kill: Callable[[Victim], None]) -> None:
        self._random = random.Random(f"{seed}/chaos")  # noqa: S311
        self._bolts = bolts
        self._kill = kill
        self._acker_at = self._random.uniform(*_ACKER_WINDOW)
        self._bolt_at = self._random.uniform(*_BOLT_WINDOW)
        self._executed: dict[str, int] = {}
        self.acker_kills = 0
        self.bolt_kills = 0

    def step(
        self,
        done: float,
        ackers: Sequence[AckerSnapshot],
        stats: Mapping[str, Stats],
        pids: Mapping[str, Sequence[int]],
    ) -> None:
        """Kills what is due when this share of lines is acked; stats and process ids are by component."""
        if not self.acker_kills and done >= self._acker_at:
            busy = [worker for worker in ackers if worker.is_busy]
            if busy:
                self._kill(Victim(self._random.choice(busy).pid, "acker worker"))
                self.acker_kills += 1
        if not self.bolt_kills and done >= self._bolt_at:
            working = [bolt for bolt in self._bolts if self._is_working(stats[bolt], pids[bolt])]
            if working:
                bolt = self._random.choice(working)
                self._kill(Victim(self._random.choice(pids[bolt]), f"{bolt} process"))
                self.bolt_kills += 1
        self._executed = {bolt: stats[bolt].executed for bolt in self._bolts}

    def _is_working(self, stats: Stats, pids: Sequence[int]) -> bool:
        before = self._executed.get(stats.component)
        # Processes of a bolt share its tasks evenly, so each has one if there are enough of them.
        all_have_tasks = set(stats.pids) == set(pids) and len(stats.tasks) >= len(pids)
        return all_have_tasks and before is not None and stats.executed > before
