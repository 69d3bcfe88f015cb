"""When the trees are reset whose tuples wait for tasks that execute nothing: a call takes long, or calls raise."""

from collections.abc import Mapping
from typing import Protocol

from spout_sdk.bolts.bolt_task import BoltTask


class Resets(Protocol):
    def begin(self, tasks: Mapping[int, BoltTask]) -> None: ...
    def read(self) -> bool: ...
    def send(self) -> int: ...
    def end(self) -> None: ...
    def close(self) -> None: ...


class PeriodicResets:
    """Resets the trees of what waits for some tasks, every third of a message timeout.

    Args:
        resets: see there; None where no trees are followed.
        timeout: seconds, the smallest message timeout of what reaches the bolt.
    """

    def __init__(self, resets: Resets | None, timeout: float) -> None:
        self._resets = resets
        self.every = timeout / 3
        self._tasks: dict[int, BoltTask] = {}
        self._reset_at = 0.0

    def keep(self, tasks: Mapping[int, BoltTask], now: float) -> None:
        """Keeps the trees of these tasks alive, and no others; called twice a second as long as that is so."""
        if self._resets is None:
            return
        if self._tasks != tasks:  # a task that is assigned again is another one
            if tasks:
                self._resets.begin(tasks)
            else:
                self._resets.end()
            self._tasks, self._reset_at = dict(tasks), now
        if not tasks:
            return
        has_ended = self._resets.read()
        if now >= self._reset_at:
            self._resets.send()
            # Trees of records that are not read yet are not reset yet.
            self._reset_at = now + self.every if has_ended else now

    def waited_for(self, tasks: Mapping[int, BoltTask], now: float) -> dict[int, BoltTask]:
        """The tasks that take no inputs between two calls: they pause, or have been busy for long."""
        return {
            number: task
            for number, task in list(tasks.items())
            if task.pause is not None or ((since := task.busy_since) is not None and now - since >= self.every)
        }

    def close(self) -> None:
        if self._resets is not None:
            self._resets.close()
