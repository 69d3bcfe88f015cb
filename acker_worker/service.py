"""An acker worker of all topologies in `acker.topologies`: one worker each, in a thread; see `docs/adr/0012`."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from confluent_kafka import Producer

from acker_worker.ledger import warm_up
from acker_worker.published import Published, PublishedTopologies
from acker_worker.served import OnStats, Served, Worker
from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker, WorkerSettings
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.stats_publisher import producer_settings
from tuple_tree.errors import ManifestError
from tuple_tree.manifest import Manifest

_log = logging.getLogger(__name__)
_LOOK_S: Final = 0.2
_STOP_S: Final = 25.0  # how long all workers together may take to commit and leave, in seconds
_MANY: Final[dict[str, str | int | float | bool]] = {
    # Of each consumer; librdkafka's 64 MB are too much for one of many that begin to read again at the same time.
    "queued.max.messages.kbytes": 8_192
}


class AckerService:
    """Follows the tuple trees of all topologies of a cluster, and of those that come while it runs.

    `on_stats` is called in the threads of workers, `on_turn` a few times a second by the loop that supervises them.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        settings: WorkerSettings | None = None,
        on_stats: Callable[[str, WorkerStats], None] = lambda _topology, _stats: None,
        on_turn: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kafka = {**_MANY, **kafka}
        self._settings = settings or WorkerSettings()
        self._on_stats = on_stats
        self._on_turn = on_turn
        self._clock = clock
        self._stopping = threading.Event()
        self._served: dict[str, Served] = {}
        # One for all: a producer of each worker would be a connection and a few threads more, for each topology.
        self._stats_producer: Producer | None = None

    def stop(self) -> None:
        """Asks `run` to end cleanly; may be called from a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Works until `stop` is called; an error of one topology is logged, and its worker is started again.

        Raises `ClusterError` if `acker.topologies` cannot be followed.
        """
        published = PublishedTopologies(self._kafka, self._clock)
        try:
            published.open()
            self._stats_producer = Producer(producer_settings(self._kafka))
            warm_up()
            _log.info("acker worker of all topologies started")
            while not self._stopping.is_set():
                for change in published.poll(_LOOK_S):
                    self._take(change)
                for served in self._served.values():
                    served.check()
                self._served = {name: served for name, served in self._served.items() if not served.gone}
                self._on_turn()
        finally:
            published.close()
            self._stop_all()
        _log.info("acker worker of all topologies stopped")

    def topologies(self) -> Mapping[str, Served]:
        """What is served, or should be; from any thread."""
        return dict(self._served)

    def heartbeat_ages(self) -> dict[str, float]:
        """Topology → seconds since the loop of its worker turned last; from any thread."""
        ages = {name: served.silence_s for name, served in self.topologies().items()}
        return {name: age for name, age in ages.items() if age is not None}

    def _take(self, change: Published) -> None:
        topology, value = change
        served = self._served.get(topology)
        if value is None:
            if served is not None:
                served.withdraw()
            return
        if served is None:
            served = Served(topology, self._make_worker, partial(self._on_stats, topology), self._clock)
            # A new mapping, because other threads read the old one.
            self._served = {**self._served, topology: served}
        try:
            served.publish(_manifest(topology, value))
        except ManifestError as error:
            served.refuse(str(error))

    def _make_worker(self, manifest: Manifest, on_stats: OnStats) -> Worker:
        return AckerWorker(
            *(manifest.topology, self._kafka, self._settings, on_stats, self._clock, manifest, self._stats_producer)
        )

    def _stop_all(self) -> None:
        # All at once, so that each has as long as there is.
        for served in self._served.values():
            served.stop()
        deadline = self._clock() + _STOP_S
        for name, served in self._served.items():
            if not served.join(deadline - self._clock()):
                _log.error(
                    "the acker worker of %s has not ended within %g s and is given up; what it has not committed is "
                    "folded again by the next owner of its partitions",
                    *(name, _STOP_S),
                )


def _manifest(topology: str, value: bytes) -> Manifest:
    manifest = Manifest.from_json(value)
    if manifest.topology != topology:
        raise ManifestError(
            f"the record of {topology!r} in acker.topologies is the manifest of {manifest.topology!r}: publish both "
            "again with acker topics create MODULE:TOPOLOGY"
        )
    return manifest
