"""How fast acker workers turn packed ack batches, already in a real topic, into delivered notices.

    make bench-setup
    python -m benchmarks.worker             # one worker, against Storm's Acker in memory
    python -m benchmarks.worker --curve     # by entries of a batch, partitions and workers
    python -m benchmarks.worker --quick --without-storm

The ack log is filled beforehand with a sliding window of trees (`benchmarks.ack_log`). Workers, each a process of its
own, read it from its beginning, anew in each round. Storm's side is that of `benchmarks.ledger`: `Acker.execute` in
memory, with nothing to read and nothing to deliver. docs/performance.md describes what is measured.
"""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import harness
from benchmarks.ack_log import AckLog, Notice
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.ledger import SIZES, TURNS, WARM_ROUNDS, storm_side, storm_versions
from benchmarks.processes import running_ackers
from benchmarks.setup import require_storm
from benchmarks.topics import Topics, broker
from benchmarks.window import BATCH, Window

_TREES: Final = 20_000_000
_QUICK_TREES: Final = 2_000_000
_PARTITIONS: Final = 8
_CURVE_BATCHES: Final = (1, 10, 100, 1_000)
_CURVE_PARTITIONS: Final = (1, 2, 4, 8)
_CURVE_PENDING: Final = 100_000
_CURVE_RECORDS: Final = 300_000
"""Records of each point, so that small batches are not read for hours; but not more trees than `_TREES`."""
# All workers of a round come into the group's first generation, so that each reads only what it keeps.
_TOGETHER: Final = {"group.initial.rebalance.delay.ms": "3000"}


def rate(log: AckLog, notices: Sequence[Notice]) -> float:
    """Entries a second from the first notice of the last partition to the last notice of all."""
    first: dict[int, int] = {}
    for notice in notices:
        first.setdefault(notice.partition, notice.at_ms)
    began, ended = max(first.values()), max(notice.at_ms for notice in notices)
    if ended - began < 100:
        raise BenchmarkError(f"the log was read in {ended - began} ms: write more trees, so that it can be measured")
    folded = {notice.partition: notice.position for notice in notices if notice.at_ms <= began}
    before = log.entries()
    entries = sum(int(before[partition][-1] - before[partition][position]) for partition, position in folded.items())
    return entries / (ended - began) * 1000


def read(topics: Topics, log: AckLog, workers: int) -> float:
    """Lets new workers read the log from its beginning; returns entries a second."""
    log.forget_commits()
    with running_ackers(topics.servers, log.topology, log.partitions, workers):
        notices = log.await_notices()
        if (shares := log.shares()) != [log.partitions // workers] * workers:
            raise BenchmarkError(f"the {workers} workers own {shares} of {log.partitions} partitions: run it again")
    return rate(log, notices)


def row(
    log: AckLog, pending: int, batch: int, workers: int, rates: Sequence[float], storm: Spread | None = None
) -> dict[str, Any]:
    """Rates are entries (inits and acks) a second, all workers together; of Storm messages."""
    worker = Spread.of(rates)
    return {
        "pending": pending,
        "partitions": log.partitions,
        "batch": batch,
        "workers": workers,
        "entries": sum(int(each[-1]) for each in log.entries()),
        "worker": worker,
        "storm": storm,
        "ratio": round(worker.median / storm.median, 2) if storm else None,
    }


def compare(
    topics: Topics, pending: int, trees: int, batch: int, rounds: int, with_storm: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """The row of one size, our worker and Storm's Acker in turn; and the versions of Storm."""
    log = AckLog(topics, _PARTITIONS)
    log.fill(pending, trees, batch)
    with tempfile.TemporaryDirectory(prefix="bench-worker-") as directory:
        file, window = Path(directory, "ids"), Window.drawn(pending, max(TURNS, pending))
        window.save(file)
        with storm_side(file, window) if with_storm else nullcontext() as java:
            contestants: dict[str, Callable[[], float]] = {"worker": partial(read, topics, log, 1)}
            if java is not None:
                for _ in range(WARM_ROUNDS):
                    java.round()
                contestants["storm"] = java.round
            rates = harness.in_turn(contestants, rounds, shown="{:,.0f}/s".format)
            versions = storm_versions(java) if java is not None else {}
    storm = Spread.of(rates["storm"]) if with_storm else None
    log.close()
    return row(log, pending, batch, 1, rates["worker"], storm), versions


def curve(
    topics: Topics, batches: Sequence[int], partitions: Sequence[int], rounds: int, most: int
) -> list[dict[str, Any]]:
    """Every combination; one and two workers read the same log, in turn."""
    rows = []
    for count in partitions:
        for batch in batches:
            log = AckLog(topics, count)
            log.fill(_CURVE_PENDING, min(most, _CURVE_RECORDS * batch // 2), batch)
            harness.say(f"{count} partitions, {batch} entries a batch, by workers …")
            workers = {number: partial(read, topics, log, number) for number in range(1, min(count, 2) + 1)}
            rates = harness.in_turn(workers, rounds, shown="{:,.0f} entries/s".format)
            log.close()
            rows += [row(log, _CURVE_PENDING, batch, number, of) for number, of in rates.items()]
    return rows


def main() -> None:
    parser = harness.parser(__doc__, "a short log, few rounds")
    parser.add_argument("--curve", action="store_true", help="by entries of a batch, partitions and workers")
    parser.add_argument("--pending", type=int, nargs="+", default=list(SIZES[:2]), help="sizes of the window")
    parser.add_argument("--batch", type=int, default=BATCH, help="entries of a record")
    parser.add_argument("--rounds", type=int, help="5 unless given, 3 of the curve")
    parser.add_argument("--without-storm", action="store_true", help="our side only; not kept by itself")
    given = parser.parse_args()
    kept_in = harness.directory(given, whole=given.curve or not given.without_storm)
    if not (given.curve or given.without_storm):
        require_storm()  # before the log is filled
        harness.await_idle(kept_in)
    host, versions = harness.machine(), dict[str, str]()
    trees = _QUICK_TREES if given.quick else _TREES
    rows: list[dict[str, Any]] = []
    with broker(_TOGETHER) as topics:
        if given.curve:
            rounds = given.rounds or (1 if given.quick else 3)
            batches, partitions = ((100,), (2,)) if given.quick else (_CURVE_BATCHES, _CURVE_PARTITIONS)
            rows = curve(topics, batches, partitions, rounds, trees)
        else:
            rounds, batch = given.rounds or (2 if given.quick else 5), 500 if given.quick else given.batch
            for pending in SIZES[:1] if given.quick else given.pending:
                harness.say(f"{pending:,} pending trees …")
                of_size, storm = compare(topics, pending, trees, batch, rounds, not given.without_storm)
                rows.append(of_size)
                versions |= storm
    settings = {"rounds": rounds, "warm_rounds_of_storm": WARM_ROUNDS}
    harness.publish("worker_curve" if given.curve else "worker", host, rows, settings, kept_in, versions=versions)


if __name__ == "__main__":
    harness.run(main)
