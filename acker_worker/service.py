"""An acker worker of all topologies in `acker.topologies`: one worker each, in a thread; see `docs/adr/0012`.

An error of a worker ends its thread and nothing else; it is started again.
"""

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from confluent_kafka import Producer

from acker_worker.errors import AckerError
from acker_worker.ledger import LedgerSettings, warm_up
from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker, WorkerSettings
from kafka_clients.access import ACKER, Operation, Permission, Role
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import AccessError, BrokerUnreachableError, TopicsError
from kafka_clients.repeated_lines import get_logger
from kafka_clients.stats_publisher import producer_settings
from kafka_clients.supervision import Backoff
from tuple_tree.errors import ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.timing import Interval

logger = get_logger(__name__)
_TURN_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.5  # between two requests for the end of `acker.topologies`
_CONTACT_SECONDS: Final = 4.0  # how long a broker may take to answer, in seconds: the loop waits
_STOP_SECONDS: Final = 25.0  # how long all workers together may take to commit and leave, in seconds
_READER: Final = Role(
    ACKER, "acker workers of all topologies", (Permission("topic", TOPOLOGIES_TOPIC, (Operation.READ,)),)
)
_MANY: Final[dict[str, str | int | float | bool]] = {
    # Of each consumer; librdkafka's 64 MB are too much for one of many that begin to read again at the same time.
    "queued.max.messages.kbytes": 8_192
}
_backoff: Final = partial(Backoff, first=0.5, longest=30.0, healthy=60.0)
OnStats = Callable[[WorkerStats], None]


class Worker(Protocol):
    def run(self) -> None: ...

    def stop(self) -> None: ...


class _Run(threading.Thread):
    def __init__(self, manifest: Manifest, worker: Worker, now: float) -> None:
        super().__init__(name=f"acker-{manifest.topology}", daemon=True)
        self.manifest = manifest
        self.began = now
        self.stopping = False
        self.error: Exception | None = None
        self._worker = worker
        self.start()

    def run(self) -> None:
        try:
            self._worker.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other topologies continue
            self.error = error

    def stop(self) -> None:
        self.stopping = True
        self._worker.stop()


class Served:
    """Serves one topology; workers are started in `check` only, and call `on_stats` in their thread."""

    def __init__(
        self,
        topology: str,
        make: Callable[[Manifest, OnStats], Worker],
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
    def heartbeat_age_s(self) -> float | None:
        """Seconds since the worker's loop turned last; None while there is none."""
        return self._clock() - self._turned_at if self.serving else None

    def publish(self, manifest: Manifest) -> None:
        """Serves the topology by this manifest from now on; its worker is stopped if its settings have changed."""
        self.problem = ""
        if not manifest.acking:
            logger.debug("topology %s has the guarantee at_most_once: it has no trees", self._topology)
            self.stop()
            return
        self._wanted = manifest
        self._start_at, self._backoff = self._clock(), _backoff()
        if self._run is None or self._run.stopping:
            return
        before = self._run.manifest
        if manifest.ack_partitions != before.ack_partitions:
            logger.error(
                "topology %s was published with %d ack partitions and has %d: they never change while it lives, so its "
                "worker continues with %d. Publish it with that number again, or under a new name",
                *(self._topology, manifest.ack_partitions, before.ack_partitions, before.ack_partitions),
            )
        elif LedgerSettings.of(manifest) != LedgerSettings.of(before):
            logger.info("topology %s was published with other time-outs: its worker starts again", self._topology)
            self._run.stop()

    def refuse(self, why: str) -> None:
        """Logs that the published manifest cannot be used; a worker of an earlier manifest continues."""
        if not self.serving:
            self.problem = why
        logger.error("topology %s cannot be served as it was published: %s", self._topology, why)

    def withdraw(self) -> None:
        self.problem = ""
        logger.info("topology %s was withdrawn: its worker stops", self._topology)
        self.stop()

    def check(self) -> None:
        """Starts the worker if there is to be one, and reaps one that has ended."""
        now = self._clock()
        if self._run is not None and not self._run.is_alive():
            self._reap(self._run, now)
        if self._run is None and self._wanted is not None and now >= self._start_at:
            self._turned_at = now
            self._run = _Run(self._wanted, self._make(self._wanted, self._on_snapshot), now)

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
            logger.error("%s", self._run.error)
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
            logger.error("%s", run.error)
            return
        pause_s = self._backoff.after(now - run.began)
        is_ours = isinstance(run.error, AckerError)
        self.problem = str(run.error) if is_ours else f"{type(run.error).__name__}: {run.error}"
        logger.error(
            "topology %s is not served, tried again in %.1f s: %s",
            *(self._topology, pause_s, self.problem),
            exc_info=None if is_ours else run.error,
        )
        self._start_at = now + pause_s


class AckerService:
    """Tracks the tuple trees of all topologies of a cluster, including topologies created while it runs.

    `on_stats` is called in the threads of workers, `on_turn` a few times a second by the loop that supervises them.
    `instance` is its name as a static member of the groups of all topologies.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        settings: WorkerSettings | None = None,
        on_stats: Callable[[str, WorkerStats], None] = lambda _topology, _stats: None,
        on_turn: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        instance: str | None = None,
    ) -> None:
        self._kafka = {**_MANY, **kafka}
        self._catalogue = Catalogue(self._kafka, _CONTACT_SECONDS)
        self._followed: tuple[str, int] | None = None  # id and end of `acker.topologies`, when it was read last
        self._published: dict[str, tuple[int, bytes | None]] = {}
        self._settings = settings or WorkerSettings()
        self._on_stats = on_stats
        self._on_turn = on_turn
        self._clock = clock
        self._instance = instance
        self._stopping = threading.Event()
        self._served: dict[str, Served] = {}
        # One for all: a producer of each worker would be a connection and a few threads more, for each topology.
        self._stats_producer: Producer | None = None

    def stop(self) -> None:
        """Asks `run` to end cleanly; may be called from a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Works until `stop` is called; an error of one topology is logged, and its worker is started again.

        Raises `BrokerError` if `acker.topologies` cannot be followed.
        """
        looks = Interval(_LOOK_SECONDS, self._clock)
        try:
            self._catalogue.check_access(_READER)
            self._stats_producer = Producer(producer_settings(self._kafka))
            self._look()
            warm_up()
            logger.info("acker worker of all topologies started")
            while not self._stopping.wait(_TURN_SECONDS):
                if looks.due():
                    self._look()
                for served in self._served.values():
                    served.check()
                self._served = {name: served for name, served in self._served.items() if not served.gone}
                self._on_turn()
        finally:
            self._stop_all()
        logger.info("acker worker of all topologies stopped")

    def topologies(self) -> Mapping[str, Served]:
        """Topologies that are served or about to be; callable from any thread."""
        return dict(self._served)

    def heartbeat_ages(self) -> dict[str, float]:
        """Topology → seconds since the loop of its worker turned last; from any thread."""
        ages = {name: served.heartbeat_age_s for name, served in self.topologies().items()}
        return {name: age for name, age in ages.items() if age is not None}

    def _look(self) -> None:
        try:
            self._follow()
        except BrokerUnreachableError as error:
            logger.warning("%s is not followed: %s", TOPOLOGIES_TOPIC, error)
            # It may be this client alone that has lost its brokers.
            self._catalogue = Catalogue(self._kafka, _CONTACT_SECONDS)
        except TopicsError as error:
            # It may be deleted at any moment.
            if not error.is_missing:
                raise

    def _follow(self) -> None:
        """Takes what was published since the last call; if the topic is deleted, no topology is withdrawn."""
        followed = self._catalogue.published_up_to()
        if followed == self._followed:
            return
        if self._followed is not None and (followed is None or followed[0] != self._followed[0]):
            logger.warning(
                "%s was deleted: workers continue, and what is published from now is served", TOPOLOGIES_TOPIC
            )
        if followed is not None:
            try:
                published = self._catalogue.published()
            except AccessError as error:
                raise AccessError(f"{error}, or name one topology with --topology") from error
            for topology, record in published.items():
                if record != self._published.get(topology):
                    self._take(topology, record[1])
            self._published = published
        self._followed = followed

    def _take(self, topology: str, value: bytes | None) -> None:
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
            *(manifest.topology, self._kafka, self._settings, on_stats, self._clock, manifest, self._stats_producer),
            instance=self._instance,
        )

    def _stop_all(self) -> None:
        # All at once, so that each has as long as there is.
        for served in self._served.values():
            served.stop()
        deadline = self._clock() + _STOP_SECONDS
        for name, served in self._served.items():
            if not served.join(deadline - self._clock()):
                logger.error(
                    "the acker worker of %s has not ended within %g s; what it has not committed is "
                    "folded again by the next owner of its partitions",
                    *(name, _STOP_SECONDS),
                )


def _manifest(topology: str, value: bytes) -> Manifest:
    manifest = Manifest.from_json(value)
    if manifest.topology != topology:
        raise ManifestError(
            f"the record of {topology!r} in acker.topologies is the manifest of {manifest.topology!r}: publish both "
            "again with acker topics create MODULE:TOPOLOGY"
        )
    return manifest
