"""Decides when to reset the trees whose tuples wait for a task: while a call takes long, or after calls that raise."""

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
    """Resets the trees whose tuples wait for given tasks, every third of a message timeout.

    Args:
        resets: sends the resets; None without acking.
        timeout: the smallest message timeout of the spouts upstream, in seconds.
    """

    def __init__(self, resets: Resets | None, timeout: float) -> None:
        self._resets = resets
        self.every = timeout / 3
        self._tasks: dict[int, BoltTask] = {}
        self._reset_at = 0.0

    def keep(self, tasks: Mapping[int, BoltTask], now: float) -> None:
        """Keeps the trees of these tasks alive, and no others; call it twice a second with the current tasks."""
        if self._resets is None:
            return
        if self._tasks != tasks:  # a task that is assigned again is another object
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
            # If records are left to read, reset again at the next call: their trees are not reset yet.
            self._reset_at = now + self.every if has_ended else now

    def waited_for(self, tasks: Mapping[int, BoltTask], now: float) -> dict[int, BoltTask]:
        """The tasks that take no inputs between two calls: they are paused, or were busy for `every` seconds."""
        return {
            number: task
            for number, task in list(tasks.items())
            if task.pause is not None or ((since := task.busy_since) is not None and now - since >= self.every)
        }

    def close(self) -> None:
        if self._resets is not None:
            self._resets.close()
