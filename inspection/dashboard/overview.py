"""The topologies of a cluster with the state of each, by the statistics of their processes alone.

Lags, topics and brokers are checked where a topology is shown.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from inspection.dashboard.recent import JsonObject
from inspection.health.findings import Severity
from inspection.health.observation import Observation
from inspection.health.verdict import judge, sentence
from inspection.statistics import StatisticsReader, local_ms
from inspection.view import TopologyView
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import BrokerError
from kafka_clients.repeated_lines import get_logger
from tuple_tree.control import Control
from tuple_tree.manifest import Manifest
from tuple_tree.names import stats_topic
from tuple_tree.timing import Interval

logger = get_logger(__name__)

_BACK_MS: Final = 60_000
_TURN_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 2.0
_CATALOGUE_SECONDS: Final = 10.0


class Overview(threading.Thread):
    """Follows all topologies with one consumer, while there are requests."""

    def __init__(self, kafka: KafkaSettings, clock: Callable[[], float], idle_seconds: float) -> None:
        super().__init__(name="dashboard overview", daemon=True)
        self._kafka = kafka
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._requested_at = clock()
        self._ending = threading.Event()
        self._latest: Sequence[JsonObject] | BrokerError = ()

    def stop(self) -> None:
        self._ending.set()

    def request(self) -> bool:
        """Records a request; false if it has ended, and the caller has to begin another."""
        self._requested_at = self._clock()
        return not self._ending.is_set()

    def rows(self) -> Sequence[JsonObject]:
        """A row for each topology; none before they are read for the first time."""
        if isinstance(self._latest, BrokerError):
            raise self._latest
        return self._latest

    def run(self) -> None:
        while not self._is_over():
            try:
                self._follow()
            except Exception as error:
                if not isinstance(error, BrokerError):
                    logger.exception("the topologies cannot be followed; trying again")
                    error = BrokerError("the topologies cannot be followed; the dashboard's log has the error")
                self._latest = error
                self._ending.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        """Follows the topologies until they change."""
        catalogue = Catalogue(self._kafka)
        due = Interval(_CATALOGUE_SECONDS, self._clock)
        manifests, controls, existing = _published(catalogue), catalogue.controls(), catalogue.topics()
        views = {name: TopologyView(manifest) for name, manifest in manifests.items()}
        reported = [view for name, view in views.items() if stats_topic(name) in existing]
        with closing(StatisticsReader(self._kafka, reported)) as statistics:
            statistics.read(local_ms() - _BACK_MS)
            while not self._is_over():
                now_ms = statistics.read_to_ms
                self._latest = [row(view, now_ms, controls.get(name, Control())) for name, view in views.items()]
                statistics.poll(_TURN_SECONDS)
                if due.due():
                    controls = catalogue.controls()
                    if _published(catalogue) != manifests:
                        return

    def _is_over(self) -> bool:
        if self._clock() - self._requested_at > self._idle_seconds:
            self._ending.set()
        return self._ending.is_set()


def row(view: TopologyView, now_ms: int, control: Control) -> JsonObject:
    """A topology at a time: its requested state, its processes, and the worst of the findings on them."""
    snapshot = view.snapshot(now_ms)
    findings = judge(Observation(view.manifest, snapshot, control=control.state))
    severities = [each.severity for each in findings]
    return {
        "topology": view.manifest.topology,
        "control": control.state,
        "processes": sum(each["processes"] for each in snapshot["components"] if each["head"] == each["name"]),
        "severity": next((each for each in (Severity.PROBLEM, Severity.WARNING) if each in severities), None),
        "verdict": sentence(findings),
    }


def _published(catalogue: Catalogue) -> dict[str, Manifest]:
    return {name: it for name, it in sorted(catalogue.manifests().items()) if isinstance(it, Manifest)}
