"""How fast acker workers turn packed ack batches, already in a real topic, into delivered notices.

    make bench-setup
    python -m benchmarks.worker             # one worker, against Storm's Acker in memory
    python -m benchmarks.worker --curve     # by entries of a batch, partitions and workers
    python -m benchmarks.worker --quick --without-storm

The ack log of an embedded broker is filled beforehand with a sliding window of trees (`benchmarks.ack_log`). Workers,
each a process of its own, read it from its beginning. Times are the broker's own, at which it appended the notices.
What counts is the entries that were folded between the first notice of the partition that came last and the last notice
of all, by the positions that the notices name: neither the start of a process nor the filling of the window is in it,
but reading, decoding, folding, and the delivery of notices are. Each round reads the same log anew.

Storm's side is that of `benchmarks.ledger`: `Acker.execute` in memory, with nothing to read and nothing to deliver.
The broker has the same two processors as the worker, and gives of them.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks import command
from benchmarks.ack_log import AckLog, SilenceError, ToldNotice
from benchmarks.ledger import TURNS, WARM_ROUNDS, storm
from benchmarks.ledger_ids import BATCH, WindowIds
from benchmarks.results import Spread, machine, publish, report
from benchmarks.setup.storm import require
from benchmarks.sides import Side
from benchmarks.worker_child import WorkerChild
from local_kafka import LocalKafka

SIZES: Final = (100_000, 1_000_000)
TREES: Final = 20_000_000
PARTITIONS: Final = 8
ROUNDS: Final = 5
CURVE_BATCHES: Final = (1, 10, 100, 1_000)
CURVE_PARTITIONS: Final = (1, 2, 4, 8)
CURVE_WORKERS: Final = (1, 2)
CURVE_PENDING: Final = 100_000
CURVE_RECORDS: Final = 300_000
"""Records of each point, so that small batches are not read for hours; but not more trees than `TREES`."""
CURVE_ROUNDS: Final = 3
_QUICK_TREES: Final = 2_000_000
_QUICK_BATCH: Final = 500
_EVENT_S: Final = 120.0
# All workers of a round come into the group's first generation, so that nobody reads what is another's.
_TOGETHER: Final = {"group.initial.rebalance.delay.ms": "3000"}


@dataclass(frozen=True)
class Result:
    """What one size gave.

    Attributes:
        pending: trees in the window, over all partitions.
        partitions: of the ack log.
        batch: entries of a record.
        workers: processes.
        entries: in the log.
        worker: entries (inits and acks) a second, all workers together.
        storm: messages a second of Storm's Acker.
        ratio: of the medians, ours to Storm's.
    """

    pending: int
    partitions: int
    batch: int
    workers: int
    entries: int
    worker: Spread
    storm: Spread | None = None
    ratio: float | None = None


class Filled(Protocol):
    """A log that knows what was written."""

    def entries(self) -> list[NDArray[np.int64]]:
        """For each partition, how many entries lie before each offset."""


def rate(log: Filled, notices: Sequence[ToldNotice]) -> float:
    """Entries a second from the first notice of the last partition to the last notice of all.

    Raises:
        SilenceError: if that is too short to be measured.
    """
    first: dict[int, int] = {}
    for notice in notices:
        first.setdefault(notice.partition, notice.at_ms)
    began, ended = max(first.values()), max(notice.at_ms for notice in notices)
    folded = {notice.partition: notice.position for notice in notices if notice.at_ms <= began}
    before = log.entries()
    entries = sum(int(before[partition][-1] - before[partition][position]) for partition, position in folded.items())
    if ended - began < 100:
        raise SilenceError(f"the log was read in {ended - began} ms: write more trees, so that it can be measured")
    return entries / (ended - began) * 1000


def read(log: AckLog, servers: str, workers: int) -> float:
    """Lets new workers read the log from its beginning; returns entries a second."""
    log.forget_commits()
    with ExitStack() as running:
        children = [running.enter_context(WorkerChild(log.topology, servers)) for _ in range(workers)]
        for child in children:
            child.await_event("took over partitions", _EVENT_S)
        notices = log.await_notices(log.trees)
        shares = sorted(log.members().values())
        if shares != sorted(log.partitions // workers for _ in range(workers)):
            raise SilenceError(f"{log.partitions} partitions were shared out as {shares}: read it again")
    return rate(log, notices)


def compare(servers: str, pending: int, trees: int, batch: int, rounds: int, with_storm: bool) -> tuple[Result, Any]:
    """One size, our worker and Storm's Acker in turn; returns what it gave, and the versions of the peers."""
    log = AckLog(servers, PARTITIONS)
    log.fill(pending, trees, batch)
    with tempfile.TemporaryDirectory(prefix="bench-worker-") as directory:
        file, ids = Path(directory, "ids"), WindowIds.drawn(pending, max(TURNS, pending))
        ids.save(file)
        with storm(file, ids) if with_storm else nullcontext() as java:
            theirs: list[float] = []
            if java is not None:
                for _ in range(WARM_ROUNDS):
                    java.round()
            found = []
            for _ in range(rounds):
                found.append(read(log, servers, 1))
                theirs += _round(java)
            versions = java.said["versions"] if java is not None else {}
    ours = Spread.of(found)
    storms = Spread.of(theirs) if theirs else None
    entries = int(sum(each[-1] for each in log.entries()))
    log.close()
    ratio = round(ours.median / storms.median, 2) if storms else None
    return Result(pending, PARTITIONS, batch, 1, entries, ours, storms, ratio), versions


def _round(java: Side | None) -> list[float]:
    return [] if java is None else [java.round()["messages_per_second"]]


def curve(servers: str, batches: Sequence[int], partitions: Sequence[int], rounds: int, most: int) -> list[Result]:
    """Every combination; one and two workers read the same log, in turn."""
    rows = []
    for count in partitions:
        for batch in batches:
            log = AckLog(servers, count)
            log.fill(CURVE_PENDING, min(most, CURVE_RECORDS * batch // 2), batch)
            entries = int(sum(each[-1] for each in log.entries()))
            workers = [each for each in CURVE_WORKERS if each <= count]
            found: dict[int, list[float]] = {each: [] for each in workers}
            for _ in range(rounds):
                for each in workers:
                    found[each].append(read(log, servers, each))
            log.close()
            for each in workers:
                row = Result(CURVE_PENDING, count, batch, each, entries, Spread.of(found[each]))
                print(f"{count} x {batch}, {each} workers: {row.worker.median:,.0f} entries/s", file=sys.stderr)
                rows.append(row)
    return rows


def main() -> None:
    parser = command.parser(__doc__, "a short log, few rounds")
    parser.add_argument("--curve", action="store_true", help="by entries of a batch, partitions and workers")
    parser.add_argument("--pending", type=int, nargs="+", default=list(SIZES), help="sizes of the window")
    parser.add_argument("--batch", type=int, default=BATCH, help="entries of a record")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} unless given, {CURVE_ROUNDS} of the curve")
    parser.add_argument("--without-storm", action="store_true", help="our side only; not kept by itself")
    given = parser.parse_args()
    peers: dict[str, str] = {}
    rows: list[Result] = []
    if not (given.curve or given.without_storm):
        require()  # whoever is missing is missed now, and not when the log is filled
    host = machine()
    with LocalKafka(properties=_TOGETHER, heap="1g", jvm="server") as kafka:
        servers = kafka.bootstrap_servers
        if given.curve:
            name, rounds = "worker_curve", given.rounds or (1 if given.quick else CURVE_ROUNDS)
            batches, partitions = ((100,), (2,)) if given.quick else (CURVE_BATCHES, CURVE_PARTITIONS)
            rows = curve(servers, batches, partitions, rounds, _QUICK_TREES if given.quick else TREES)
        else:
            name, rounds = "worker", given.rounds or (2 if given.quick else ROUNDS)
            sizes = SIZES[:1] if given.quick else given.pending
            trees, batch = (_QUICK_TREES, _QUICK_BATCH) if given.quick else (TREES, given.batch)
            for pending in sizes:
                print(f"{pending:,} pending trees …", file=sys.stderr, flush=True)
                row, found = compare(servers, pending, trees, batch, rounds, not given.without_storm)
                rows.append(row)
                peers |= {key: text for key, text in found.items() if key != "heap_mb"}
    settings = {"rounds": rounds, "warm_rounds_of_storm": WARM_ROUNDS}
    found = report(name, host, rows, settings, peers)
    publish(found, command.directory(given, whole=given.curve or not given.without_storm))


if __name__ == "__main__":
    command.run(main)
