"""A running topology as its processes tell it: records in, a snapshot and a history out. No Kafka, no clock."""

from collections.abc import Iterable, Mapping
from typing import Final, TypedDict

from acker_worker.stats import WorkerStats
from inspection.flows import Edge, edges_of, flows
from inspection.history import History, Points, milliseconds
from inspection.loads import TaskLoad, busiest, skew, task_loads
from inspection.tracks import WINDOW_MS, Track
from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram
from tuple_tree.manifest import BoltManifest, Component, Manifest
from tuple_tree.process_stats import StatsRecord

KEPT_MS: Final = 7_200_000
"""How long the totals of a process are kept after it was heard last."""

Process = tuple[bytes, str]
"""The key of a process, and its run."""


class Latency(TypedDict):
    """Quantiles in milliseconds."""

    p50: float
    p99: float


class Totals(TypedDict):
    """What was counted since the start of the processes that are known; None where one of them does not count it."""

    emitted: int | None
    transferred: int | None
    executed: int | None
    acked: int | None


class ComponentView(TypedDict):
    """A spout or a bolt."""

    name: str
    kind: str
    tasks: int  # that it has by the manifest
    owned_tasks: int  # that a process works at
    processes: int  # that are at work
    emitted_per_second: float | None
    transferred_per_second: float | None
    executed_per_second: float | None
    acked_per_second: float | None
    failed_per_second: float | None
    totals: Totals
    failed: dict[str, int]  # totals by reason
    # open trees of a spout; of a bolt, inputs that are neither acked nor failed. None if nobody says it.
    pending: int | None
    oldest_input: str  # of a bolt, the input open for longest, as `topic[partition] offset N`; empty if none is open
    oldest_input_seconds: float  # for how long
    lag: int | None  # records that wait in a bolt's inbox; None for a spout, and where it is not known
    # share of the time, from 0 to 1, in which the busiest process of a bolt executed tuples; None where not known
    busy: float | None
    skew: float | None  # how many times the mean of a bolt's tasks the busiest one gets; None where that says nothing
    loads: list[TaskLoad]  # of each task of a bolt
    sources: list[str]  # topics that a `KafkaSpout` reads
    execute_latency: Latency | None  # None where nothing was measured lately
    process_latency: Latency | None
    complete_latency: Latency | None
    errors: int
    last_error: str
    dead_letters: int
    undelivered: int
    # whether something else than the SDK runs it, such as Spark: then some counts may not be known, or all
    external: bool


class EdgeView(TypedDict):
    """A subscription; the rate is None where counts do not tell it from others."""

    source: str
    stream: str
    target: str
    grouping: str
    tuples_per_second: float | None


class PartitionView(TypedDict):
    """A partition of the ack log; all but its number is None where no acker worker is at work for it."""

    partition: int
    owner: str | None
    pending: int | None
    orphans: int | None
    oldest_seconds: float | None
    clock_lag_seconds: float | None
    rebuilding: bool | None
    rebuild_left: int | None


class WorkerView(TypedDict):
    """An acker worker that is at work."""

    name: str
    partitions: list[int]
    entries_per_second: float
    seen_seconds_ago: float


class Snapshot(TypedDict):
    """A topology at a moment; `docs/inspection.md` describes it."""

    topology: str
    at: int
    window_seconds: float
    components: list[ComponentView]
    edges: list[EdgeView]
    acker: list[PartitionView]
    workers: list[WorkerView]
    dead_letters: int | None


class TopologyView:
    """What is known of a topology."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._spouts = {spout.name for spout in manifest.spouts}
        self._components: dict[Process, Track[Stats]] = {}
        self._workers: dict[Process, Track[WorkerStats]] = {}
        self._points = Points()
        self._component_points = {component.name: Points() for component in manifest.components}
        self._lags: Mapping[str, int | None] = {}
        self._task_lags: Mapping[str, Mapping[int, int | None]] = {}
        self._dead_letters: int | None = None
        self.newest_ms: int | None = None
        """When anything was heard last, in milliseconds since 1970; None if nothing was."""
        self.unreadable = 0
        """Records whose counts could not be read."""

    def feed(self, records: Iterable[StatsRecord]) -> None:
        """Takes what processes said, those of each process in order."""
        for record in records:
            try:
                said = WorkerStats.of(record.stats) if record.kind == "acker" else Stats.of(record.stats)
            except (ValueError, TypeError, KeyError, AttributeError):
                self.unreadable += 1
                continue
            if isinstance(said, WorkerStats):
                self._feed_worker(record, said)
            else:
                self._feed_component(record, said)
            self.newest_ms = max(record.at_ms, self.newest_ms or 0)

    def feed_lags(
        self,
        lags: Mapping[str, int | None],
        dead_letters: int | None,
        task_lags: Mapping[str, Mapping[int, int | None]] | None = None,
    ) -> None:
        """Takes what waits now."""
        self._lags = dict(lags)
        self._task_lags = task_lags or {}
        self._dead_letters = dead_letters

    def snapshot(self, now_ms: int) -> Snapshot:
        """The topology now, in the form of its JSON."""
        now_ms = max(now_ms, self.newest_ms or 0)
        self._forget(now_ms)
        components = [self._component(component, now_ms) for component in self._manifest.components]
        return {
            "topology": self._manifest.topology,
            "at": now_ms,
            "window_seconds": WINDOW_MS / 1000,
            "components": components,
            "edges": self._edges(components),
            "acker": self._partitions(now_ms),
            "workers": [
                {
                    "name": track.record.process,
                    "partitions": sorted(one.partition for one in track.last.by_partition),
                    "entries_per_second": _rounded(track.rate(lambda stats: stats.entries)),
                    "seen_seconds_ago": track.silent_ms(now_ms) / 1000,
                }
                for track in self._alive_workers(now_ms)
            ],
            "dead_letters": self._dead_letters,
        }

    def history(self, component: str | None = None) -> History:
        """One point each five seconds."""
        points = self._points if component is None else self._component_points[component]
        return {"topology": self._manifest.topology, "component": component, "points": points.points()}

    def _feed_component(self, record: StatsRecord, stats: Stats) -> None:
        process = record.key, record.run
        track = self._components.get(process)
        if track is None:
            track = self._components[process] = Track(record, stats)
            before = None
            if not track.saw_start:
                return
        else:
            before = track.last
            if not track.add(record, stats):
                return
        if record.name in self._spouts:
            self._points.add(record.at_ms, process, before, stats)
        if (own := self._component_points.get(record.name)) is not None:
            own.add(record.at_ms, process, before, stats)

    def _feed_worker(self, record: StatsRecord, stats: WorkerStats) -> None:
        process = record.key, record.run
        track = self._workers.get(process)
        if track is None:
            self._workers[process] = Track(record, stats)
        else:
            track.add(record, stats)

    def _forget(self, now_ms: int) -> None:
        for tracks in (self._components, self._workers):
            for process in [each for each, track in tracks.items() if track.silent_ms(now_ms) > KEPT_MS]:
                del tracks[process]

    def _component(self, component: Component, now_ms: int) -> ComponentView:
        tracks = [track for track in self._components.values() if track.record.name == component.name]
        alive = [track for track in tracks if track.is_alive(now_ms)]
        heard = [track for track in alive if track.is_heard(now_ms)]
        total = Stats(component.name)
        for track in sorted(tracks, key=lambda each: each.record.at_ms):
            total = total.merge(track.last)
        known = bool(tracks) or not component.external
        is_bolt = isinstance(component, BoltManifest)

        def is_said(name: str, by: Iterable[Track[Stats]]) -> bool:
            return known and all(name in track.record.stats for track in by)

        def rate(name: str) -> float | None:
            if not is_said(name, heard):
                return None
            return _rounded(sum(track.rate(lambda stats: int(getattr(stats, name))) for track in heard))

        loads = task_loads(component.tasks, alive, heard, self._task_lags.get(component.name, {})) if is_bolt else []
        oldest = max(alive, key=lambda track: track.last.oldest_input_seconds, default=None)
        failed = _rounded(sum(track.rate(lambda stats: sum(stats.failed.values())) for track in heard))
        return {
            "name": component.name,
            "kind": component.kind,
            "tasks": component.tasks,
            "owned_tasks": len({task for track in alive for task in track.last.tasks}),
            "processes": len(alive),
            "emitted_per_second": rate("emitted"),
            "transferred_per_second": rate("transferred"),
            "executed_per_second": rate("executed"),
            "acked_per_second": rate("acked"),
            "failed_per_second": failed if known else None,
            "totals": {
                "emitted": total.emitted if is_said("emitted", tracks) else None,
                "transferred": total.transferred if is_said("transferred", tracks) else None,
                "executed": total.executed if is_said("executed", tracks) else None,
                "acked": total.acked if is_said("acked", tracks) else None,
            },
            "failed": dict(total.failed),
            "pending": sum(track.last.pending for track in alive) if is_said("pending", alive) else None,
            "oldest_input": oldest.last.oldest_input if oldest else "",
            "oldest_input_seconds": round(oldest.last.oldest_input_seconds, 1) if oldest else 0.0,
            "lag": self._lags.get(component.name) if is_bolt else None,
            "busy": busiest(heard) if is_bolt else None,
            "skew": skew(loads, WINDOW_MS / 1000),
            "loads": loads,
            "sources": list(total.sources),
            "execute_latency": _latency(heard, "execute_latency"),
            "process_latency": _latency(heard, "process_latency"),
            "complete_latency": _latency(heard, "complete_latency"),
            "errors": total.errors,
            "last_error": total.last_error,
            "dead_letters": total.dead_letters,
            "undelivered": total.undelivered,
            "external": component.external,
        }

    def _edges(self, components: Iterable[ComponentView]) -> list[EdgeView]:
        sent, taken = {}, {}
        for component in components:
            if component["transferred_per_second"] is not None:
                sent[component["name"]] = component["transferred_per_second"]
            if component["executed_per_second"] is not None and component["kind"] == "bolt":
                taken[component["name"]] = component["executed_per_second"]
        found: Mapping[Edge, float | None] = flows(self._manifest, sent, taken)
        return [
            {
                "source": source,
                "stream": stream,
                "target": target,
                "grouping": grouping,
                "tuples_per_second": _maybe_rounded(found[source, stream, target]),
            }
            for (source, stream, target), grouping in edges_of(self._manifest).items()
        ]

    def _alive_workers(self, now_ms: int) -> list[Track[WorkerStats]]:
        alive = [track for track in self._workers.values() if track.is_alive(now_ms)]
        return sorted(alive, key=lambda track: track.record.process)

    def _partitions(self, now_ms: int) -> list[PartitionView]:
        if not self._manifest.acking:
            return []
        found: dict[int, PartitionView] = {}
        # A worker that was killed still seems to own its partitions; its successor was heard later.
        for track in sorted(self._alive_workers(now_ms), key=lambda each: each.record.at_ms):
            for one in track.last.by_partition:
                found[one.partition] = {
                    "partition": one.partition,
                    "owner": track.record.process,
                    "pending": one.pending,
                    "orphans": one.orphans,
                    "oldest_seconds": one.oldest_ms / 1000 if one.oldest_ms >= 0 else None,
                    "clock_lag_seconds": one.clock_lag_ms / 1000,
                    "rebuilding": one.rebuilding,
                    "rebuild_left": max(0, one.committed - one.position) if one.rebuilding else 0,
                }
        return [found.get(number, _unowned(number)) for number in range(self._manifest.ack_partitions)]


def _unowned(partition: int) -> PartitionView:
    return {
        "partition": partition,
        "owner": None,
        "pending": None,
        "orphans": None,
        "oldest_seconds": None,
        "clock_lag_seconds": None,
        "rebuilding": None,
        "rebuild_left": None,
    }


def _latency(tracks: Iterable[Track[Stats]], name: str) -> Latency | None:
    together = LatencyHistogram()
    for track in tracks:
        if (window := track.window()) is not None:
            _, before, now = window
            latency: LatencyHistogram = getattr(now, name)
            together.merge(latency if before is None else latency.since(getattr(before, name)))
    if not together.total:
        return None
    return {"p50": milliseconds(together.quantile(0.5)), "p99": milliseconds(together.quantile(0.99))}


def _rounded(rate: float) -> float:
    return round(rate, 3)


def _maybe_rounded(rate: float | None) -> float | None:
    return None if rate is None else _rounded(rate)
