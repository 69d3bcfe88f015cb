"""The figures of a cluster's topologies, each followed in a thread as long as it is requested, and searches.

`docs/reference/json.md` describes the JSON objects.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from shlex import join
from typing import Final

from inspection.dashboard.message_search import command_of, search_message
from inspection.dashboard.overview import Overview
from inspection.dashboard.recent import JsonObject, RecentDeadLetters, RecentFailures, SourceMessages
from inspection.doctor_process import Findings
from inspection.errors import RootNotFoundError, SearchLimitError
from inspection.health.findings import Finding
from inspection.health.verdict import as_json, ordered
from inspection.notation import show_root
from inspection.observer import Observer
from inspection.state_search import as_text, entry_as_json, find_key, plain
from inspection.statistics import histories
from inspection.topology_status import ClusterStatus
from inspection.trace.output import tree_as_json, verdict
from inspection.trace.tree import Tree
from inspection.trace_reader import TraceReader
from inspection.tracks import STATISTICS_TIMEOUT_MS
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import BrokerError, BrokerUnreachableError
from kafka_clients.log_reader import Progress
from kafka_clients.repeated_lines import get_logger
from tuple_tree.manifest import Manifest
from tuple_tree.names import acks_topic
from tuple_tree.timing import Interval

logger = get_logger(__name__)

HOUR_SECONDS: Final = 3_600.0
IDLE_SECONDS: Final = HOUR_SECONDS
"""Seconds without a request after which a topology is no longer followed; its statistics stay in Kafka."""
AT_ONCE: Final = 2  # searches for trees and keys
SEARCH_SECONDS: Final = 60.0  # how long a search may take
MOST_TUPLES: Final = 2_000  # tuples of the largest tree that is drawn
STOPPING: Final = "the dashboard is stopping; start it again"
_TURN_SECONDS: Final = 1.0  # between two snapshots
_MANIFEST_SECONDS: Final = 10.0  # between two reads of the manifest
_AGAIN_SECONDS: Final = 2.0  # pause after an error
_LEAVE_SECONDS: Final = 2.0  # how long `close` waits for a thread
_FIRST_SECONDS: Final = 30.0  # how long a request may wait for the first snapshot

_Figures = tuple[
    JsonObject, Mapping[str | None, JsonObject]
]  # A snapshot, and histories by component, None for the topology's


class Source:
    """The figures of the topologies of one cluster.

    Every method may block for seconds and is called in threads, several at once.

    Each but `topologies` raises `UnknownTopologyError` if there is no such topology, another `BrokerError` if the
    cluster does not answer; `trace` and `oldest` raise a `TraceError` if there is no tree, `state` a `StateKeyError` if
    there is no key, `message` a `StatusError` if there is no message, and all of these a `SearchLimitError` if the
    search is too large.
    """

    def __init__(self, kafka: KafkaSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._kafka = dict(kafka)
        self._clock = clock
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}
        self._overview: Overview | None = None
        self._searches = threading.BoundedSemaphore(AT_ONCE)
        self._closed = False

    def topologies(self) -> Sequence[str]:
        """The names of all that are published: those whose processes report statistics first."""
        names = [name for name, it in Catalogue(self._kafka).manifests().items() if isinstance(it, Manifest)]
        reported = ClusterStatus(self._kafka).reported_ms(names)
        recent = max(reported.values(), default=0) - STATISTICS_TIMEOUT_MS
        return sorted(names, key=lambda name: (reported.get(name, 0) < recent, name))

    def overview(self) -> Sequence[JsonObject]:
        """All topologies with their states and verdicts, by the statistics of their processes alone."""
        with self._lock:
            if self._closed:
                raise BrokerError(STOPPING)
            if self._overview is None or not self._overview.request():
                self._overview = Overview(self._kafka, self._clock, IDLE_SECONDS)
                self._overview.start()
            return self._overview.rows()

    def snapshot(self, topology: str) -> JsonObject:
        """The topology now, as `acker top --once --json` prints it, with the doctor's findings on topics and brokers.

        `checked` has the time of these, null before the first, and the `problem` of the doctor's last run.
        """
        return self._of(topology).latest()[0]

    def history(self, topology: str, component: str | None) -> JsonObject:
        """The last hour in points; of the topology, or of a component, which need not exist."""
        nothing: JsonObject = {"topology": topology, "component": component, "points": []}
        return self._of(topology).latest()[1].get(component, nothing)

    def findings(self, topology: str) -> JsonObject:
        latest = self._of(topology).latest()[0]
        return {"findings": latest["findings"], "verdict": latest["verdict"], **latest["checked"]}

    def failures(self, topology: str) -> Sequence[JsonObject]:
        """Trees that failed, the latest first."""
        return self._of(topology).failures()

    def dead_letters(self, topology: str) -> Sequence[JsonObject]:
        return self._of(topology).dead_letters.read()

    def trace(self, topology: str, root: int, ended_ms: int | None) -> JsonObject:
        """A tree, as `acker trace --json` prints it; `ended_ms` is the time of its notice, if that is known.

        It began within a largest tree age of `ended_ms`, or two of now.
        """

        def search(reader: TraceReader) -> list[Tree]:
            since_ms = reader.usual_since_ms if ended_ms is None else reader.begun_since_ms(ended_ms)
            return reader.trees([root], since_ms)

        return self._searched(topology, search, show_root(root))

    def oldest(self, topology: str, partition: int) -> JsonObject:
        """The oldest open tree of a partition of the ack log, in the same form."""

        def search(reader: TraceReader) -> list[Tree]:
            found = reader.oldest_trees(1, reader.usual_since_ms, [partition])
            if not found:
                raise RootNotFoundError(
                    f"no tree is open in partition {partition} of {acks_topic(topology)}: its trees have "
                    "been acked or have failed meanwhile. Look again, or go back to the dashboard"
                )
            return found

        return self._searched(topology, search, "--oldest 1")

    def state(self, topology: str, bolt: str, key: Sequence[str]) -> JsonObject:
        """A key of a bolt's state, a text for each field, as `acker state get --json` prints it."""
        with self._searching(f"acker state get {topology} {join([bolt, *key])}") as check:
            fields, entry = find_key(topology, bolt, self._kafka, key, check)
        # Scripts round large numbers.
        text = json.dumps(entry.value, ensure_ascii=False, indent=2, default=as_text)
        return {"topology": topology, "bolt": bolt, **plain(entry_as_json(fields, entry)), "text": text}

    def message(self, topology: str, key: str | None, position: str | None) -> JsonObject:
        """The status of the newest message with a key, or of that at a position, as `acker status --json` prints it."""
        with self._searching(command_of(topology, key, position)) as check:
            return search_message(topology, self._kafka, key, position, check)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            followed: list[_Followed | Overview] = [*self._followed.values()]
            if self._overview is not None:
                followed.append(self._overview)
        for one in followed:
            one.stop()
        for one in followed:
            # A broker may not answer it; nothing is lost with it.
            one.join(_LEAVE_SECONDS)

    def _of(self, topology: str) -> "_Followed":
        found = self._followed.get(topology)
        if found is not None and found.request():
            return found
        # Outside the lock, for it may take seconds; a topology that does not exist is not followed.
        manifest = Catalogue(self._kafka).manifest(topology)
        with self._lock:
            if self._closed:
                raise BrokerError(STOPPING)
            found = self._followed.get(topology)
            if found is None or not found.request():
                found = self._followed[topology] = _Followed(self._kafka, manifest, self._clock)
                found.start()
            return found

    def _searched(self, topology: str, search: Callable[[TraceReader], list[Tree]], which: str) -> JsonObject:
        command = f"acker trace {which} --topology {topology}"
        manifest = Catalogue(self._kafka).manifest(topology)
        with self._searching(command) as check, TraceReader(self._kafka, manifest, check) as reader:
            (tree,) = search(reader)
        if len(tree.nodes) > MOST_TUPLES:
            raise SearchLimitError(
                f"{verdict(tree)}. The dashboard draws {MOST_TUPLES:,} tuples of a tree at most, and this one has "
                f"{len(tree.nodes):,}; run {command}"
            )
        return {"topology": topology, "trees": [tree_as_json(tree)]}

    @contextmanager
    def _searching(self, command: str) -> Iterator[Progress]:
        """A search in the calling thread, bounded in number and time, so that others are not blocked by many.

        It has to call what is yielded with its progress. `command` is what to run if it is too large.
        """
        if not self._searches.acquire(blocking=False):
            raise SearchLimitError(
                f"the dashboard runs {AT_ONCE} searches already, its limit: try again later, or run {command}"
            )
        deadline = self._clock() + SEARCH_SECONDS

        def check(what: str, done: int, total: int) -> None:
            if self._closed:
                raise SearchLimitError(STOPPING)
            if self._clock() > deadline:
                raise SearchLimitError(
                    f"the dashboard searches for {SEARCH_SECONDS:g} s at most, and has read {done:,} of {total:,} "
                    f"records of {what}; run {command}, which takes the time that it needs"
                )

        try:
            yield check
        finally:
            self._searches.release()


class _Followed(threading.Thread):
    """A topology that is followed until there are no more requests for it."""

    def __init__(self, kafka: KafkaSettings, manifest: Manifest, clock: Callable[[], float]) -> None:
        super().__init__(name=f"dashboard {manifest.topology}", daemon=True)
        self._kafka = kafka
        self._manifest = manifest
        self._clock = clock
        self._requested_at = clock()
        self._ending = threading.Event()
        # Or why there are none.
        self._latest: _Figures | BrokerError = BrokerUnreachableError(
            f"the figures of {manifest.topology} could not be read within {_FIRST_SECONDS:g} s: check the brokers"
        )
        self._has_read = threading.Event()
        self._earlier: Mapping[str | None, Sequence[JsonObject]] = {}  # points before the ones that are followed
        self._failures = _Cached(RecentFailures(kafka, manifest).read, clock)
        self._messages = SourceMessages(kafka, manifest)
        self.doctor = Findings(kafka, manifest.topology, clock)
        self.dead_letters = _Cached(RecentDeadLetters(kafka, manifest).read, clock)

    def stop(self) -> None:
        self._ending.set()
        self.doctor.close()
        self._publish(BrokerError(STOPPING))

    def request(self) -> bool:
        """Records a request; false if it has ended, and the caller has to begin another."""
        self._requested_at = self._clock()
        return not self._ending.is_set()

    def latest(self) -> _Figures:
        self._has_read.wait(_FIRST_SECONDS)
        latest = self._latest
        if isinstance(latest, BrokerError):
            raise latest
        return latest

    def failures(self) -> Sequence[JsonObject]:
        sources = {component["name"]: component["sources"] for component in self.latest()[0]["components"]}
        return [
            {**failure, "source": self._messages.of(spout, int(failure["root"], 16), sources[spout])}
            for failure in self._failures.read()
            for spout in [failure["spout"]]
        ]

    def run(self) -> None:
        while not self._is_over():
            try:
                self._follow()
            except Exception as error:
                if not isinstance(error, BrokerError):
                    topology = self._manifest.topology
                    logger.exception("the figures of %s cannot be followed; trying again", topology)
                    error = BrokerError(f"{topology} cannot be followed; the dashboard's log has the error")
                self._publish(error)
                self._ending.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        """Follows the topology until its manifest changes; the next request follows the new one."""
        checks = Interval(_MANIFEST_SECONDS, self._clock)
        with closing(Observer(self._kafka, self._manifest)) as observer:
            observer.open()
            # An hour of statistics takes seconds; meanwhile a viewer has the figures of now.
            reading = threading.Thread(target=self._read_earlier, args=(observer.since_ms,), daemon=True)
            reading.start()
            while not self._is_over():
                self._publish((self._judged(observer), self._histories(observer)))
                observer.follow(_TURN_SECONDS, self._ending.is_set)
                is_due = checks.due() and not self._ending.is_set()
                if is_due and Catalogue(self._kafka).manifest(self._manifest.topology) != self._manifest:
                    self._ending.set()

    def _read_earlier(self, until_ms: int) -> None:
        def check(_what: str, _done: int, _total: int) -> None:
            if self._ending.is_set():
                raise BrokerError(STOPPING)

        since_ms = until_ms - int(HOUR_SECONDS * 1000)
        try:
            self._earlier = histories(self._kafka, self._manifest, since_ms, until_ms, check)
        except BrokerError as error:
            logger.warning("the last hour of %s could not be read: %s", self._manifest.topology, error)

    def _histories(self, observer: Observer) -> dict[str | None, JsonObject]:
        view = observer.view
        histories = {name: view.history(name) for name in (None, *(each.name for each in self._manifest.components))}
        since_ms = (view.newest_ms or 0) - HOUR_SECONDS * 1000
        return {
            name: {**later, "points": joined(self._earlier.get(name, ()), later["points"], since_ms)}
            for name, later in histories.items()
        }

    def _judged(self, observer: Observer) -> JsonObject:
        """A snapshot with the findings on what runs, and those of the doctor on topics and brokers."""
        snapshot, checked = observer.snapshot(), self.doctor.read()
        findings = ordered([*observer.findings(snapshot), *(Finding(**each) for each in checked["findings"])])
        return {**snapshot, **as_json(findings), "checked": {"at": checked["at"], "problem": checked["problem"]}}

    def _publish(self, latest: _Figures | BrokerError) -> None:
        self._latest = latest
        self._has_read.set()

    def _is_over(self) -> bool:
        if self._clock() - self._requested_at > IDLE_SECONDS:
            self._ending.set()
        return self._ending.is_set()


class _Cached:
    """Keeps what was read, or the error, for a second: several browsers request the same."""

    def __init__(self, read: Callable[[], Sequence[JsonObject]], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: Sequence[JsonObject] | BrokerError = ()
        self._old_at = 0.0

    def read(self) -> Sequence[JsonObject]:
        with self._lock:
            if self._clock() >= self._old_at:
                try:
                    self._latest = self._read()
                except BrokerError as error:
                    self._latest = error
                # From the end of it: callers that waited for a slow read do not read again.
                self._old_at = self._clock() + _TURN_SECONDS
            if isinstance(self._latest, BrokerError):
                raise self._latest
            return self._latest


def joined(earlier: Sequence[JsonObject], later: Sequence[JsonObject], since_ms: float) -> list[JsonObject]:
    """The points of two histories since a time; where both have some, those of the later one."""
    until_ms = later[0]["at"] if later else math.inf
    return [*(each for each in earlier if since_ms < each["at"] < until_ms), *later]
