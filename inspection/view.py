"""A running topology: statistics of its processes in, a snapshot and a history out. No Kafka, no clock."""

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import chain
from typing import Any, Final, TypedDict, cast

from acker_worker.stats import WorkerStats
from inspection.state_figures import StateFigures, state_figures
from inspection.tracks import (
    MINUTE_MS,
    WINDOW_MS,
    Latency,
    MostFailedView,
    Points,
    Recent,
    TaskLoad,
    Track,
    Tracks,
    busiest,
    latency_between,
    recent_counts,
    rounded,
    skew,
    task_loads,
)
from spout_sdk.statistics import Stats
from spout_sdk.windows.late_tuples import LATE
from tuple_tree.components import BoltManifest, Component, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.process_stats import StatsRecord

Edge = tuple[str, str, str]  # source, stream, target
Lags = Mapping[Any, int | None]  # component, or task of a bolt → records; None where it is not known
_ERRORS: Final = ("errors", "last_error", "last_failure", "last_dead_letter", "undelivered")
_COUNTED: Final = ("emitted", "transferred", "executed", "acked")
_LATENCIES: Final = ("execute_latency", "process_latency", "complete_latency")
_FEW_FAILED: Final = 10  # with fewer failed tuples in the window, the next one may be acked


class ComponentView(TypedDict):
    """A spout or a bolt. A component that the SDK does not run, such as one in Spark, may lack some counts, or all."""

    name: str
    kind: str  # `spout` or `bolt`
    head: str  # the component in whose tasks it runs: itself, unless it is a chained bolt
    tasks: int
    owned_tasks: int  # tasks that a process has
    processes: int  # with statistics in the last 10 s
    youngest_seconds: float | None  # age of the youngest process
    ended_by: str  # the latest error by which a process has ended in the last minute; else empty
    ended_seconds_ago: float | None  # when that was
    ended_times: int  # how many processes have ended by an error in the last minute
    recent: Recent  # counts of the last minute
    emitted_per_second: float | None  # calls of `emit`
    transferred_per_second: float | None  # tuples sent, one for each recipient
    executed_per_second: float | None
    acked_per_second: float | None
    failed_per_second: float | None
    totals: dict[str, int | None]  # `emitted`, `transferred`, `executed`, `acked` since the start of the processes
    failed: dict[str, int]  # totals by reason
    pending: int | None  # open trees of a spout; a bolt's inputs that are neither acked nor failed
    oldest_input: str  # a bolt's input that is open for longest, as `topic[partition] offset N`; else empty
    oldest_input_seconds: float  # for how long
    unread: int | None  # records of a bolt's inbox that its processes have not read
    stalled_seconds: float  # seconds without progress though there is work
    stalled_by: str  # the work that makes no progress
    execute_seconds: float  # seconds for which a call of `execute` has been running; 0 if that is not long
    execute_at: str  # the first tuple of the call, and the line of code
    paused_seconds: float  # seconds for which a task of a bolt has paused because its calls raise
    paused_by: str  # which task, the exception, and when it tries again
    retrying: int  # tuples of a bolt that wait to be executed again; open messages of a `KafkaSpout` without a tree
    most_failed: MostFailedView | None  # what has failed most often and is tried again
    settings: dict[str, int]  # of its code, such as `time_limit_ms` and `max_retries`
    programs: list[str]  # of the processes: fingerprints of the streams and groupings of their code
    control: list[str]  # the requested states that the processes of a spout have read
    failing: bool  # whether a bolt fails all that it executes
    max_pending: int | None  # trees that the owned tasks of a spout may have open
    lag: int | None  # records of a bolt's inbox, or of the topics of a `KafkaSpout`, that are not done
    done_ahead: int  # offsets past the committed ones that are done
    busy: float | None  # share of the time, from 0 to 1, in which the busiest process of a bolt executed tuples
    skew: float | None  # rate of a bolt's busiest task divided by the mean of its tasks
    loads: list[TaskLoad]  # of the tasks of a bolt
    sources: list[str]  # topics that a `KafkaSpout` reads
    execute_latency: Latency | None  # of the call of `execute`
    process_latency: Latency | None  # from the call of `execute` to the ack
    complete_latency: Latency | None  # of a spout, from emit to ack
    errors: int  # exceptions of `execute`, and calls of `report_error`
    last_error: str
    last_failure: str  # why a bolt failed its last input
    last_dead_letter: str  # the record of the last dead letter, and why it became one
    dead_letters: int
    undelivered: int  # tuples that Kafka rejected
    late_tuples: int  # tuples that came when all their windows had closed
    state: StateFigures | None  # of a bolt with a state
    external: bool  # whether the SDK does not run it, as a component in Spark


class EdgeView(TypedDict):
    """A subscription; the rate is None where it does not follow from the counts."""

    source: str
    stream: str
    target: str
    grouping: str
    tuples_per_second: float | None  # known if this edge is the only one with unknown rate at one of its ends


class PartitionView(TypedDict):
    """A partition of the ack log; all but its number is None where no acker worker owns it."""

    partition: int
    owner: str | None  # its acker worker, as `host/pid`
    pending: int | None  # open trees
    orphans: int | None  # entries whose init was not read
    oldest_seconds: float | None  # age of the oldest open tree
    clock_lag_seconds: float | None  # how far the ledger's clock is behind, while there is something to read
    rebuilding: bool | None  # whether a new owner reads again what an earlier one had committed
    rebuild_left: int | None  # records that it still has to read


class WorkerView(TypedDict):
    name: str  # `host/pid`
    partitions: list[int]  # of the ack log, that it owns
    entries_per_second: float
    seen_seconds_ago: float  # age of its latest statistics
    uptime_seconds: float
    stalled_seconds: float  # as of a component
    stalled_by: str


class Snapshot(TypedDict):
    """A topology at a moment; `docs/reference/json.md` is made of these classes."""

    topology: str
    control: str  # the requested state that its spouts have read; several, with commas, after a change
    at: int  # time, in milliseconds since 1970
    window_seconds: float  # period of rates and latencies
    components: list[ComponentView]  # in the order of the manifest
    edges: list[EdgeView]
    acker: list[PartitionView]  # of the ack log
    workers: list[WorkerView]  # running acker workers
    # Offsets of the topic of dead letters; notes of replays and transaction markers count, too.
    dead_letters: int | None
    clocks: dict[str, float]  # host → seconds by which the broker's clock is ahead of its clock, at most


class TopologyView:
    """The state of a topology. `newest_ms` is the time of the last record; `unreadable` counts invalid records."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._spouts = {spout.name for spout in manifest.spouts}
        self._components = Tracks(Stats(""))
        self._workers = Tracks(WorkerStats())
        # By component; None: of the topology, which is what its spouts did.
        self._points = {name: Points() for name in (None, *(component.name for component in manifest.components))}
        self._lags: Lags = {}
        self._task_lags: Mapping[str, Lags] = {}
        self._done_ahead: Mapping[str, int] = {}
        self._dead_letters: int | None = None
        self.newest_ms: int | None = None
        self.unreadable = 0

    def feed(self, records: Iterable[StatsRecord]) -> None:
        """Takes statistics, those of each process in order."""
        for record in records:
            try:
                stats = WorkerStats.of(record.stats) if record.kind == "acker" else Stats.of(record.stats)
            except (ValueError, TypeError, KeyError, AttributeError):
                self.unreadable += 1
                continue
            if isinstance(stats, WorkerStats):
                self._workers.add(record, stats)
            elif (before := self._components.add(record, stats)) is not None:
                for name in (record.name, None) if record.name in self._spouts else (record.name,):
                    if name in self._points:
                        self._points[name].add(record.at_ms, (record.key, record.run), before, stats)
            self.newest_ms = max(record.at_ms, self.newest_ms or 0)

    def feed_lags(
        self,
        lags: Lags,
        dead_letters: int | None,
        task_lags: Mapping[str, Lags] | None = None,
        done_ahead: Mapping[str, int] | None = None,
    ) -> None:
        """Takes the lags of components, as `ClusterStatus.lags` returns them."""
        self._done_ahead = done_ahead or {}
        self._lags = dict(lags)
        self._task_lags = task_lags or {}
        self._dead_letters = dead_letters

    def snapshot(self, now_ms: int) -> Snapshot:
        """The topology at this time, or at that of the last record if it is later, in the form of its JSON."""
        now_ms = max(now_ms, self.newest_ms or 0)
        known = self._components.known(now_ms)
        components = [self._component(component, known, now_ms) for component in self.manifest.components]
        workers = [track for track in self._workers.known(now_ms) if track.is_alive(now_ms)]
        return {
            "topology": self.manifest.topology,
            "control": ", ".join(sorted({state for each in components for state in each["control"]})),
            "at": now_ms,
            "window_seconds": WINDOW_MS / 1000,
            "components": components,
            "edges": self._edges(components),
            "acker": self._partitions(workers),
            "workers": [
                {
                    "name": track.record.process,
                    "partitions": sorted(one.partition for one in track.last.by_partition),
                    "entries_per_second": round(track.rate(lambda stats: stats.entries), 3),
                    "seen_seconds_ago": track.age_ms(now_ms) / 1000,
                    "uptime_seconds": track.record.uptime_ms / 1000,
                    "stalled_seconds": track.last.stalled[0],
                    "stalled_by": track.last.stalled[1],
                }
                for track in sorted(workers, key=lambda track: track.record.process)
            ],
            "dead_letters": self._dead_letters,
            "clocks": _clocks([track for track in known if track.is_alive(now_ms)], workers),
        }

    def sources(self) -> dict[str, tuple[str, ...]]:
        """`KafkaSpout` → the topics that it reads, of those whose processes report them."""
        known = self._components.known(self.newest_ms or 0)
        return {track.record.name: track.last.sources for track in known if track.last.sources}

    def history(self, component: str | None = None) -> dict[str, Any]:
        """One point each five seconds; of the topology unless a component is named."""
        points = self._points[component].points()
        return {"topology": self.manifest.topology, "component": component, "points": points}

    def _component(self, component: Component, known: list[Track[Stats]], now_ms: int) -> ComponentView:
        tracks = [track for track in known if track.record.name == component.name]
        alive = [track for track in tracks if track.is_alive(now_ms)]
        recent = [track for track in alive if track.is_alive(now_ms, WINDOW_MS)]
        total, held = (reduce(Stats.merge, (track.last for track in of), Stats("")) for of in (tracks, alive))
        is_known = bool(tracks) or not component.external
        is_bolt = isinstance(component, BoltManifest)
        has_inbox = isinstance(component, BoltManifest) and not component.is_chained

        def is_reported(name: str, by: Iterable[Track[Stats]]) -> bool:
            return is_known and all(name in track.record.stats for track in by)

        def rate(name: str) -> float | None:
            if not is_reported(name, recent):
                return None
            return rounded(sum(track.rate(lambda stats: int(getattr(stats, name))) for track in recent))

        def count(name: str) -> int | None:
            return int(getattr(total, name)) if is_reported(name, tracks) else None

        ended = [track for track in tracks if track.record.ended_by and track.age_ms(now_ms) < MINUTE_MS]
        lately = [track.minute for track in tracks if track.minute and track.age_ms(now_ms) < MINUTE_MS]
        loads = task_loads(component.tasks, alive, recent, self._task_lags.get(component.name, {})) if is_bolt else []
        failed = rounded(sum(track.rate(lambda stats: sum(stats.failed.values())) for track in recent))
        owned = len(held.tasks)
        view: dict[str, Any] = {
            "name": component.name,
            "kind": component.kind,
            "head": self.manifest.head(component.name).name,
            "tasks": component.tasks,
            "owned_tasks": owned,
            "processes": len(alive),
            "youngest_seconds": min((track.record.uptime_ms / 1000 for track in alive), default=None),
            "ended_by": ended[-1].record.ended_by if ended else "",
            "ended_seconds_ago": ended[-1].age_ms(now_ms) / 1000 if ended else None,
            "ended_times": len(ended),
            "recent": recent_counts(lately),
            **{f"{name}_per_second": rate(name) for name in _COUNTED},
            "failed_per_second": failed if is_known else None,
            "totals": {name: count(name) for name in _COUNTED},
            "failed": dict(total.failed),
            "pending": held.pending if is_reported("pending", alive) else None,
            "oldest_input": held.oldest_input,
            "oldest_input_seconds": round(held.oldest_input_seconds, 1),
            "unread": held.unread if has_inbox and is_reported("unread", alive) else None,
            "stalled_seconds": round(held.stalled_seconds, 1),
            "stalled_by": held.stalled_by,
            "execute_seconds": round(held.execute_seconds, 1),
            "execute_at": held.execute_at,
            "paused_seconds": round(held.paused_seconds, 1),
            "paused_by": held.paused_by,
            "retrying": held.retrying,
            "most_failed": cast(MostFailedView, held.most_failed._asdict()) if held.most_failed.times else None,
            "settings": dict(total.settings),
            "programs": list(held.programs),
            "control": list(held.control),
            "failing": is_bolt and is_failing(count("acked"), sum(total.failed.values()), rate("acked"), failed),
            "max_pending": owned * component.max_pending if isinstance(component, SpoutManifest) and owned else None,
            "lag": self._lags.get(component.name),
            "done_ahead": self._done_ahead.get(component.name, 0),
            "busy": busiest(recent) if is_bolt else None,
            "skew": skew(loads, WINDOW_MS / 1000),
            "loads": loads,
            "sources": list(total.sources),
            **{name: latency_between((track.window()[1:] for track in recent), name) for name in _LATENCIES},
            **{name: getattr(total, name) for name in _ERRORS},
            # Of a spout, the messages that ended so.
            "dead_letters": total.dead_letters + total.dead_lettered,
            "late_tuples": total.counters.get(LATE, 0),
            "state": state_figures(self.manifest, component, held.state),
            "external": component.external,
        }
        return cast(ComponentView, view)

    def _edges(self, components: list[ComponentView]) -> list[EdgeView]:
        bolts = [each for each in components if each["kind"] == "bolt"]
        sent = {each["name"]: rate for each in components if (rate := each["transferred_per_second"]) is not None}
        taken = {each["name"]: rate for each in bolts if (rate := each["executed_per_second"]) is not None}
        groupings: dict[Edge, str] = {
            (subscription.source, subscription.stream, bolt.name): subscription.grouping
            for bolt in self.manifest.bolts
            for subscription in bolt.subscriptions
        }
        rates = _flows([*groupings], sent, taken)
        return [
            {
                "source": edge[0],
                "stream": edge[1],
                "target": edge[2],
                "grouping": grouping,
                "tuples_per_second": rounded(rates[edge]),
            }
            for edge, grouping in groupings.items()
        ]

    def _partitions(self, workers: list[Track[WorkerStats]]) -> list[PartitionView]:
        if not self.manifest.acking:
            return []
        found: dict[int, PartitionView] = {}
        # The latest record wins: a worker that was killed still seems to own its partitions.
        for track in workers:
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
        nothing = dict.fromkeys(PartitionView.__annotations__)
        return [
            found.get(number, cast(PartitionView, {**nothing, "partition": number}))
            for number in range(self.manifest.ack_partitions)
        ]


def _clocks(*tracks: Iterable[Track[Any]]) -> dict[str, float]:
    ahead: dict[str, float] = {}
    for track in chain(*tracks):
        if track.ahead_ms:
            host, seconds = track.record.host, min(track.ahead_ms) / 1000
            ahead[host] = min(seconds, ahead.get(host, seconds))
    return ahead


def is_failing(acked: int | None, failed: int, acked_rate: float | None, failed_rate: float | None) -> bool:
    """Whether a bolt fails all that it executes: lately, or since its processes were started."""
    lately = acked_rate == 0 and (failed_rate or 0) * WINDOW_MS / 1000 >= _FEW_FAILED
    return lately or (acked == 0 and failed > 0)


def _flows(edges: list[Edge], sent: Mapping[str, float], taken: Mapping[str, float]) -> dict[Edge, float | None]:
    """Tuples a second along each edge; None where it does not follow from the counts of the components.

    A component counts what it sends on all edges together, and a bolt what it takes from all. An edge that is alone at
    one of its ends is known by that end; what is left of the others is then shared by fewer.
    """
    found: dict[Edge, float | None] = dict.fromkeys(edges)
    settled = True
    while settled:
        settled = False
        for counts, end in ((sent, 0), (taken, 2)):
            for name, total in counts.items():
                own = [edge for edge in edges if edge[end] == name]
                unknown = [edge for edge in own if found[edge] is None]
                if len(unknown) == 1:
                    found[unknown[0]] = max(0.0, total - sum(found[edge] or 0.0 for edge in own))
                    settled = True
    return found
