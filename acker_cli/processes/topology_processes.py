"""A topology at work on this machine: the processes of its components, and acker workers beside them."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self

from acker_cli.errors import ProcessError
from acker_cli.processes.acker_pool import AckerPool
from acker_cli.views.snapshot import Progress, Rate, TopologySnapshot
from spout_sdk import Stats, TopologyRunner
from tuple_tree.manifest import Manifest

LOOK_SECONDS: Final = 0.25
"""How often `check` is to be called."""


class Snapshots:
    """Snapshots of some components, and of the acker workers beside them."""

    def __init__(self, spouts: Iterable[str], ackers: AckerPool, clock: Callable[[], float] = time.monotonic) -> None:
        self._spouts = frozenset(spouts)
        self._ackers = ackers
        self._clock = clock
        self._began = clock()
        self._rate = Rate(clock)

    def of(self, components: Mapping[str, Stats], progress: Progress | None = None) -> TopologySnapshot:
        return TopologySnapshot(
            seconds=self._clock() - self._began,
            spouts=self._spouts,
            components=components,
            rate=self._rate.update(sum(stats.executed for stats in components.values())),
            acker_pids=tuple(worker.pid for worker in self._ackers.workers()),
            ackers=self._ackers.stats() if self._ackers.count else None,
            progress=progress,
        )


class TopologyProcesses:
    """Runs the topology of a reference `module:attribute`, and sums up its statistics.

    `processes` are by component, one each unless given; there are no `ackers` where acker workers run elsewhere.
    """

    def __init__(
        self,
        reference: str,
        manifest: Manifest,
        kafka: Mapping[str, Any],
        processes: Mapping[str, int],
        ackers: AckerPool,
    ) -> None:
        self.ackers = ackers
        self.components = TopologyRunner(reference, kafka, processes)
        self._snapshots = Snapshots((spout.name for spout in manifest.spouts), ackers)

    def __enter__(self) -> Self:
        self.ackers.start()
        self.components.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def check(self) -> None:
        """Raises a `ProcessError` if an acker worker cannot run, or all components have ended."""
        self.ackers.check()
        if self.components.wait(0):
            raise ProcessError("all components have ended by themselves: the lines above say why")

    def stop(self) -> None:
        """Stops the components first, so that the ackers read their last acks."""
        try:
            self.components.stop()
        finally:
            self.ackers.stop()

    def heartbeat_ages(self) -> dict[str, float]:
        """Component, and `acker` → seconds since a process of it reported, the longest."""
        return {**self.components.heartbeat_ages(), **self.ackers.heartbeat_ages()}

    def snapshot(self, progress: Progress | None = None) -> TopologySnapshot:
        return self._snapshots.of(self.components.stats(), progress)
