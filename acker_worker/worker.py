"""The acker worker of one topology: the loop of its acker, with checks before it, statistics and log lines."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Producer

from acker_worker.acker_loop import AckerLoop
from acker_worker.errors import AckerError
from acker_worker.ledger import warm_up
from acker_worker.stats import WorkerStats
from kafka_clients.access import ACKER, acker_role
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.loop_runner import LoopRunner, broker_errors
from kafka_clients.repeated_lines import get_logger
from kafka_clients.stats_publisher import StatsPublisher, producer_settings
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group, acks_topic, dead_letters_topic
from tuple_tree.timing import Interval
from tuple_tree.topics import topic_specs

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    commit_interval_s: float = 1.0  # what was not committed is folded again after a crash
    log_interval_s: float = 10.0  # between log lines with its figures
    stats_interval_s: float = 0.5  # between snapshots for `on_stats`


class AckerWorker:
    """Follows the tuple trees of one topology, in the partitions of its ack log that the consumer group assigns to it.

    The manifest is looked up unless given; the producer of statistics is one of its own unless given. `on_stats` is
    called with a snapshot every `stats_interval_s`, and at the end.
    """

    def __init__(
        self,
        topology: str,
        kafka: KafkaSettings,
        settings: WorkerSettings | None = None,
        on_stats: Callable[[WorkerStats], None] = lambda _stats: None,
        clock: Callable[[], float] = time.monotonic,
        manifest: Manifest | None = None,
        stats_producer: Producer | None = None,
        instance: str | None = None,
    ) -> None:
        self._topology = topology
        self._kafka = dict(kafka)
        self._settings = settings or WorkerSettings()
        self._on_stats = on_stats
        self._clock = clock
        self._runner = LoopRunner(self._report, clock, self._settings.stats_interval_s)
        self._given_manifest = manifest
        self._stats_producer = stats_producer
        self._instance = instance
        self._lines = Interval(self._settings.log_interval_s, clock)
        self._logged = WorkerStats()

    def stop(self) -> None:
        """Asks `run` to end cleanly; may be called from a signal handler or another thread."""
        self._runner.stop()

    def run(self) -> None:
        """Works until `stop` is called.

        Raises `AckerError` if it cannot start, or cannot continue; the message says why and what to do.
        """
        with broker_errors(f"the acker worker of {self._topology}"):
            catalogue = Catalogue(self._kafka, group=acker_group(self._topology))
            manifest = self._checked(catalogue)
            warm_up()
            loop = AckerLoop(
                *(manifest, self._kafka, catalogue, self._settings.commit_interval_s, self._clock),
                on_tick=self._runner.tick,
                instance=self._instance,
            )
            producer = self._stats_producer or Producer(producer_settings(self._kafka))
            publisher = StatsPublisher(self._topology, "acker", ACKER, producer, catalogue.admin, self._clock())
            logger.info("acker worker of %s started", self._topology)
            self._runner.run(loop, loop.watch, publisher)
        logger.info("acker worker of %s stopped, its partitions are released", self._topology)

    def _report(self, stats: WorkerStats) -> None:
        self._on_stats(stats)
        if self._lines.due():
            logger.info("%s: %s", self._topology, stats.sentence(self._logged))
            self._logged = stats

    def _checked(self, catalogue: Catalogue) -> Manifest:
        manifest = self._given_manifest or catalogue.manifest(self._topology)
        if not manifest.acking:
            raise AckerError(
                f"topology {self._topology} has the guarantee at_most_once, so it has no trees: build it with "
                'guarantee="at_least_once"'
            )
        catalogue.check_access(acker_role(manifest))
        wanted = {acks_topic(self._topology), dead_letters_topic(self._topology)}
        problems = catalogue.problems([spec for spec in topic_specs(manifest) if spec.name in wanted])
        if problems:
            raise problems[0]
        if warning := catalogue.short_retention(manifest):
            logger.warning("%s", warning)
        return manifest
