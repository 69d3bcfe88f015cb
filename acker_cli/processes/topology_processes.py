"""A topology at work on this machine: the processes of its components, and acker workers beside them."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from acker_cli.errors import ProcessError
from acker_cli.processes.acker_pool import AckerPool
from acker_cli.views.snapshot import ACKER_LOOP, Progress, Rate, TopologySnapshot
from spout_sdk import TopologyRunner
from tuple_tree.manifest import Manifest

LOOK_SECONDS: Final = 0.25
"""How often `check` is to be called."""


class TopologyProcesses:
    """Runs the topology of a reference `module:attribute`, and sums up its statistics.

    `processes` are by component, one each unless given; `ackers` is None where acker workers run elsewhere.
    """

    def __init__(
        self,
        reference: str,
        manifest: Manifest,
        kafka: Mapping[str, Any],
        processes: Mapping[str, int],
        ackers: AckerPool | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spouts = frozenset(spout.name for spout in manifest.spouts)
        self._clock = clock
        self._began = clock()
        self._rate = Rate(clock)
        self.ackers = ackers
        self.components = TopologyRunner(reference, kafka, processes)

    def __enter__(self) -> Self:
        if self.ackers is not None:
            self.ackers.start()
        self.components.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def check(self) -> None:
        """Raises a `ProcessError` if an acker worker cannot run, or all components have ended."""
        if self.ackers is not None:
            self.ackers.check()
        if self.components.wait(0):
            raise ProcessError("all components have ended by themselves: the lines above say why")

    def stop(self) -> None:
        """Stops the components first, so that the ackers read their last acks."""
        try:
            self.components.stop()
        finally:
            if self.ackers is not None:
                self.ackers.stop()

    def heartbeat_ages(self) -> dict[str, float]:
        """Component, and `acker` → seconds since a process of it reported, the longest."""
        ackers = {} if self.ackers is None else {ACKER_LOOP: self.ackers.heartbeat_age()}
        return {**self.components.heartbeat_ages(), **ackers}

    def snapshot(self, progress: Progress | None = None) -> TopologySnapshot:
        stats = self.components.stats()
        workers = self.ackers.workers() if self.ackers is not None else []
        return TopologySnapshot(
            seconds=self._clock() - self._began,
            spouts=self._spouts,
            components=stats,
            rate=self._rate.update(sum(one.executed for one in stats.values())),
            acker_pids=tuple(worker.pid for worker in workers),
            ackers=self.ackers.stats() if self.ackers is not None else None,
            progress=progress,
        )
