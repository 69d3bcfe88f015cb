"""Records that processes of a topology write about themselves, for the readers of these."""

from collections.abc import Iterable

from acker_worker.stats import WorkerStats
from spout_sdk.statistics import Stats
from tests.manifests import bolt, spout
from tests.manifests import manifest as manifest_of
from tuple_tree.manifest import Manifest
from tuple_tree.process_stats import StatsRecord
from tuple_tree.streams import declare

NOW = 1_760_000_000_000


def manifest(**bolts: tuple[str, ...]) -> Manifest:
    """A spout `lines` of two tasks, and bolts that receive the default streams of others."""
    receivers = bolts or {"split": ("lines",)}
    receiving = (bolt(name, *sources, streams=(declare("word"),)) for name, sources in receivers.items())
    return manifest_of(spout("lines", tasks=2), *receiving, ack_partitions=2)


def stats_record(stats: Stats, uptime_s: float, at_ms: int, *, ended: bool = False, run: str = "a") -> StatsRecord:
    record = StatsRecord(
        "component", stats.component, "host", stats.pids[0], run, int(uptime_s * 1000), ended, stats.to_dict()
    )
    return StatsRecord.of(record.key, record.to_json(), at_ms)


def acker(stats: WorkerStats, uptime_s: float, at_ms: int, *, pid: int = 9, ended: bool = False) -> StatsRecord:
    record = StatsRecord("acker", "acker", "host", pid, "w", int(uptime_s * 1000), ended, stats.to_dict())
    return StatsRecord.of(record.key, record.to_json(), at_ms)


def lines(emitted: int, *, pid: int = 1, acked: int = 0, pending: int = 0, tasks: tuple[int, ...] = (0, 1)) -> Stats:
    return Stats("lines", (pid,), tasks, emitted=emitted, transferred=emitted, acked=acked, pending=pending)


def each_second(counts: Iterable[int], *, pid: int = 1, begin_s: float = 100.0, at_ms: int = NOW) -> list[StatsRecord]:
    """One record a second of a process that is `begin_s` old, the last of them at `at_ms`."""
    found = list(counts)
    return [
        stats_record(lines(count, pid=pid), begin_s + number, at_ms - 1000 * (len(found) - 1 - number))
        for number, count in enumerate(found)
    ]
