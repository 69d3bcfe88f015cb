"""One of several topologies that a process serves: its worker, in a thread, which is started again when it ends.

An error of a worker ends its thread and nothing else.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from acker_worker.ledger import LedgerSettings
from acker_worker.stats import WorkerStats
from kafka_clients.errors import ClusterError
from kafka_clients.supervision import Backoff
from tuple_tree.manifest import Manifest

_log = logging.getLogger(__name__)
OnStats = Callable[[WorkerStats], None]


class Worker(Protocol):
    def run(self) -> None: ...

    def stop(self) -> None: ...


MakeWorker = Callable[[Manifest, OnStats], Worker]
_backoff: Final = partial(Backoff, first=0.5, longest=30.0, healthy=60.0)


class _Run(threading.Thread):
    def __init__(self, manifest: Manifest, make: MakeWorker, on_stats: OnStats, now: float) -> None:
        super().__init__(name=f"acker-{manifest.topology}", daemon=True)
        self.manifest = manifest
        self.began = now
        self.stopping = False
        self.error: Exception | None = None
        self._worker = make(manifest, on_stats)
        self.start()

    def run(self) -> None:
        try:
            self._worker.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other topologies go on
            self.error = error

    def stop(self) -> None:
        self.stopping = True
        self._worker.stop()


class Served:
    """Serves one topology; workers are started in `check` only, and call `on_stats` in their thread."""

    def __init__(
        self,
        topology: str,
        make: MakeWorker,
        on_stats: OnStats = lambda _stats: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stats = WorkerStats()  # the last snapshot of its worker
        self.problem = ""  # why it is not served now; empty if it is, or is not to be
        self._topology = topology
        self._make = make
        self._on_stats = on_stats
        self._clock = clock
        self._wanted: Manifest | None = None
        self._run: _Run | None = None
        self._turned_at = self._start_at = clock()
        self._backoff = _backoff()

    @property
    def serving(self) -> bool:
        return self._run is not None and self._run.is_alive()

    @property
    def gone(self) -> bool:
        """Whether nothing is to be served any more, and no worker is left."""
        return self._wanted is None and self._run is None and not self.problem

    @property
    def silence_s(self) -> float | None:
        """Seconds since the worker's loop turned last; None while there is none."""
        return self._clock() - self._turned_at if self.serving else None

    def publish(self, manifest: Manifest) -> None:
        """Serves the topology by this manifest from now on; its worker is stopped if its settings have changed."""
        self.problem = ""
        if not manifest.acking:
            _log.debug("topology %s promises at_most_once: nothing is to be followed", self._topology)
            self.stop()
            return
        self._wanted = manifest
        self._start_at, self._backoff = self._clock(), _backoff()
        if self._run is None or self._run.stopping:
            return
        before = self._run.manifest
        if manifest.ack_partitions != before.ack_partitions:
            _log.error(
                "topology %s was published with %d ack partitions and has %d: they never change while it lives, so its "
                "worker goes on with %d. Publish it with that number again, or under a new name",
                *(self._topology, manifest.ack_partitions, before.ack_partitions, before.ack_partitions),
            )
        elif LedgerSettings.of(manifest) != LedgerSettings.of(before):
            _log.info("topology %s was published with other time-outs: its worker starts again", self._topology)
            self._run.stop()

    def refuse(self, why: str) -> None:
        """Logs that the published manifest cannot be used; a worker of an earlier manifest goes on."""
        if not self.serving:
            self.problem = why
        _log.error("topology %s cannot be served as it was published: %s", self._topology, why)

    def withdraw(self) -> None:
        self.problem = ""
        _log.info("topology %s was withdrawn: its worker stops", self._topology)
        self.stop()

    def check(self) -> None:
        """Starts the worker if there is to be one, and reaps one that has ended."""
        now = self._clock()
        if self._run is not None and not self._run.is_alive():
            self._reap(self._run, now)
        if self._run is None and self._wanted is not None and now >= self._start_at:
            self._turned_at = now
            self._run = _Run(self._wanted, self._make, self._on_snapshot, now)

    def stop(self) -> None:
        """Asks the worker to end; `join` waits for it."""
        self._wanted = None
        if self._run is not None:
            self._run.stop()

    def join(self, seconds: float) -> bool:
        """Waits for the worker's end. Returns False if it still works when the time is over."""
        if self._run is None:
            return True
        self._run.join(max(0.0, seconds))
        if self._run.is_alive():
            return False
        if self._run.error is not None:
            _log.error("%s", self._run.error)
        return True

    def _on_snapshot(self, stats: WorkerStats) -> None:
        self._turned_at = self._clock()
        self.stats = stats
        self.problem = ""
        self._on_stats(stats)

    def _reap(self, run: _Run, now: float) -> None:
        self._run = None
        self.stats = self.stats.retired()
        if run.error is None:
            return
        if self._wanted is None:
            _log.error("%s", run.error)
            return
        pause_s = self._backoff.after(now - run.began)
        is_ours = isinstance(run.error, ClusterError)
        self.problem = str(run.error) if is_ours else f"{type(run.error).__name__}: {run.error}"
        _log.error(
            "topology %s is not served, tried again in %.1f s: %s",
            *(self._topology, pause_s, self.problem),
            exc_info=None if is_ours else run.error,
        )
        self._start_at = now + pause_s
