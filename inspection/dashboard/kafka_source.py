"""The figures of a cluster's topologies, each followed in a thread as long as it is requested."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from inspection.dashboard.recent import RecentDeadLetters, RecentFailures, SourceMessages
from inspection.dashboard.source import Shown
from inspection.dashboard.tree_searches import TreeSearches
from inspection.doctor_process import Findings
from inspection.observer import Observer
from inspection.topology_status import ClusterStatus
from inspection.tracks import SILENT_MS
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import BrokerUnreachableError, ClusterError
from tuple_tree.manifest import Manifest
from tuple_tree.timing import Interval

_log = logging.getLogger(__name__)

HOUR_S: Final = 3_600.0
IDLE_S: Final = 120.0
"""After so long without a request a topology is not followed any more; its statistics stay in Kafka."""
_TURN_S: Final = 1.0  # between two snapshots
_MANIFEST_S: Final = 10.0  # between two reads of the manifest
_AGAIN_S: Final = 2.0  # pause after an error
_STOPPING: Final = "the dashboard is stopping; start it again"
_LEAVE_S: Final = 2.0  # how long `close` waits for a thread
_FIRST_S: Final = 30.0  # how long a request may wait for the first snapshot


class KafkaSource:
    def __init__(self, kafka: KafkaSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._kafka = dict(kafka)
        self._clock = clock
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}
        self._searches = TreeSearches(self._kafka, clock)
        self._closed = False

    def topologies(self) -> Sequence[str]:
        names = [name for name, it in Catalogue(self._kafka).manifests().items() if isinstance(it, Manifest)]
        reported = ClusterStatus(self._kafka).reported_ms(names)
        recent = max(reported.values(), default=0) - SILENT_MS
        return sorted(names, key=lambda name: (reported.get(name, 0) < recent, name))

    def snapshot(self, topology: str) -> Shown:
        return self._of(topology).snapshot()

    def history(self, topology: str, component: str | None) -> Shown:
        return self._of(topology).history(component)

    def findings(self, topology: str) -> Shown:
        return self._of(topology).doctor.read()

    def failures(self, topology: str) -> Sequence[Shown]:
        return self._of(topology).failures()

    def dead_letters(self, topology: str) -> Sequence[Shown]:
        return self._of(topology).dead_letters.read()

    def trace(self, topology: str, root: int, ended_ms: int | None) -> Shown:
        return self._searches.find(Catalogue(self._kafka).manifest(topology), root, ended_ms)

    def oldest(self, topology: str, partition: int) -> Shown:
        return self._searches.oldest(Catalogue(self._kafka).manifest(topology), partition)

    def close(self) -> None:
        self._searches.close()
        with self._lock:
            self._closed = True
            followed = [*self._followed.values()]
        for one in followed:
            one.stop()
        for one in followed:
            one.join()

    def _of(self, topology: str) -> "_Followed":
        with self._lock:
            found = self._followed.get(topology)
            if found is not None and found.is_asked():
                return found
        # Outside the lock, for it may take seconds; a topology that does not exist is not followed.
        manifest = Catalogue(self._kafka).manifest(topology)
        with self._lock:
            if self._closed:
                raise ClusterError(_STOPPING)
            found = self._followed.get(topology)
            if found is None or not found.is_asked():
                found = self._followed[topology] = _Followed(self._kafka, manifest, self._clock)
            return found


class _Followed:
    """A topology that is followed in a thread until there are no more requests for it."""

    def __init__(self, kafka: KafkaSettings, manifest: Manifest, clock: Callable[[], float]) -> None:
        self._kafka = kafka
        self._manifest = manifest
        self._topology = manifest.topology
        self._clock = clock
        self._asked = clock()
        self._stop = threading.Event()
        self._ended = False
        self._news = threading.Condition()
        # A snapshot, and histories by component; or why there is none.
        self._latest: tuple[Shown, Mapping[str | None, Shown]] | ClusterError | None = None
        self._failures = _Cached(RecentFailures(kafka, manifest).read, clock)
        self._messages = SourceMessages(kafka, manifest)
        self.doctor = Findings(kafka, manifest.topology, clock)
        self.dead_letters = _Cached(RecentDeadLetters(kafka, manifest).read, clock)
        self._thread = threading.Thread(target=self._run, name=f"dashboard {manifest.topology}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.doctor.close()
        self._publish(ClusterError(_STOPPING))

    def join(self) -> None:
        # A broker may not answer it; nothing is lost with it.
        self._thread.join(_LEAVE_S)

    def is_asked(self) -> bool:
        """Records a request; false if it has ended."""
        with self._news:
            self._asked = self._clock()
            return not self._ended

    def snapshot(self) -> Shown:
        return self._awaited()[0]

    def history(self, component: str | None) -> Shown:
        nothing: Shown = {"topology": self._topology, "component": component, "points": []}
        return self._awaited()[1].get(component, nothing)

    def failures(self) -> Sequence[Shown]:
        sources = {component["name"]: component["sources"] for component in self.snapshot()["components"]}
        return [
            {**failure, "source": self._messages.of(spout, int(failure["root"], 16), sources[spout])}
            for failure in self._failures.read()
            for spout in [failure["spout"]]
        ]

    def _run(self) -> None:
        while not self._stop.is_set() and not self._has_ended():
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - browsers show it, and it may pass
                if not isinstance(error, ClusterError):
                    _log.exception("the figures of %s cannot be followed; trying again", self._topology)
                    error = ClusterError(f"{self._topology} cannot be followed; the dashboard's log has the error")
                self._publish(error)
                self._stop.wait(_AGAIN_S)

    def _follow(self) -> None:
        """Follows the topology until its manifest changes."""
        looks = Interval(_MANIFEST_S, self._clock)
        with closing(Observer(self._kafka, self._manifest, HOUR_S)) as observer:
            observer.open()
            names = [None, *(component.name for component in self._manifest.components)]
            while not self._stop.is_set() and not self._has_ended():
                self._publish((observer.snapshot(), {name: observer.view.history(name) for name in names}))
                observer.follow(_TURN_S, self._stop.is_set)
                if self._stop.is_set():
                    return
                if looks.due() and Catalogue(self._kafka).manifest(self._topology) != self._manifest:
                    # The next request begins anew, with the new manifest.
                    with self._news:
                        self._ended = True

    def _publish(self, latest: tuple[Any, Any] | ClusterError) -> None:
        with self._news:
            self._latest = latest
            self._news.notify_all()

    def _awaited(self) -> tuple[Shown, Mapping[str | None, Shown]]:
        with self._news:
            self._news.wait_for(lambda: self._latest is not None, _FIRST_S)
            latest = self._latest
        if latest is None:
            raise BrokerUnreachableError(
                f"the figures of {self._topology} could not be read within {_FIRST_S:g} s: check the brokers"
            )
        if isinstance(latest, ClusterError):
            raise latest
        return latest

    def _has_ended(self) -> bool:
        with self._news:
            # A caller that finds it ended begins another.
            self._ended = self._ended or self._clock() - self._asked > IDLE_S
            return self._ended


class _Cached:
    """Keeps what was read, or the error, for a second: several browsers request the same."""

    def __init__(self, read: Callable[[], Sequence[Shown]], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: Sequence[Shown] | ClusterError = ()
        self._old_at: float | None = None

    def read(self) -> Sequence[Shown]:
        with self._lock:
            if self._old_at is None or self._clock() >= self._old_at:
                try:
                    self._latest = self._read()
                except ClusterError as error:
                    self._latest = error
                # From the end of it: callers that waited for a slow read do not read again.
                self._old_at = self._clock() + _TURN_S
            if isinstance(self._latest, ClusterError):
                raise self._latest
            return self._latest
