"""How long trees wait when an acker worker dies: from SIGKILL to the first new notice of its successor.

    python -m benchmarks.rebuild
    python -m benchmarks.rebuild --entries 50000000 --rounds 3
    python -m benchmarks.rebuild --quick

The ack log of an embedded broker holds a window of entries. In each partition it begins with a tree that is still open,
so whoever takes over reads all of it again. A worker folds and commits it, and is killed. At that moment its successor
is started, and in each partition an open tree is acked. Until its notice comes, there is

- the *start* of the successor's process, with its imports;
- *compiling*: that is, loading the compiled kernels from numba's cache;
- the *take-over*: the group misses the dead worker only when its session times out, and that hides the two before;
- the *rebuild*: the fold of the window, from the take-over until the last partition is rebuilt;
- the delivery of the notice, which the broker's clock ends.

The successor dies next.
"""

import re
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks import command
from benchmarks.ack_log import AckLog, SilenceError
from benchmarks.ledger_ids import BATCH
from benchmarks.results import Spread, machine, publish, report
from benchmarks.worker_child import WorkerChild
from benchmarks.worker_process import COMPILED, IMPORTED
from local_kafka import LocalKafka
from tuple_tree.ids import IdColumn

ENTRIES: Final = 10_000_000
PENDING: Final = 100_000
PARTITIONS: Final = 8
ROUNDS: Final = 5
SESSION_TIMEOUT_MS: Final = 10_000
_QUICK_ENTRIES: Final = 1_000_000
_QUICK_SESSION_TIMEOUT_MS: Final = 3_000
_EVENT_S: Final = 120.0
_LOOK_S: Final = 0.05
_TOOK_OVER: Final = "took over partitions"
_REBUILT: Final = "rebuilt"
_RECORDS: Final = re.compile(r"from (?P<records>\d+) records")


@dataclass(frozen=True)
class Lap:
    """One death; all times in seconds.

    Attributes:
        start_s: from the kill to the successor's imports being done.
        compile_s: from there to the kernels being ready.
        takeover_s: from there to the partitions being taken over.
        rebuild_s: from there to the last partition being rebuilt.
        first_notice_s: from the kill to the first new notice.
        last_notice_s: from the kill until each partition has told its own.
    """

    start_s: float
    compile_s: float
    takeover_s: float
    rebuild_s: float
    first_notice_s: float
    last_notice_s: float


@dataclass(frozen=True)
class Result:
    """What the deaths gave; times in seconds, as in `Lap`.

    Attributes:
        entries: in the window, over all partitions.
        pending: trees open in it.
        partitions: of the ack log.
        session_timeout_ms: after which the group misses the dead worker.
        entries_per_second: of the window, by the time of the rebuild alone.
    """

    entries: int
    pending: int
    partitions: int
    session_timeout_ms: int
    entries_per_second: Spread
    first_notice_s: Spread
    last_notice_s: Spread
    start_s: Spread
    compile_s: Spread
    takeover_s: Spread
    rebuild_s: Spread


class Deaths:
    """Workers that follow one another.

    Args:
        servers: of the broker.
        entries: in the window, over all partitions.
        pending: trees open at its end.
        session_timeout_ms: of each worker.
    """

    def __init__(self, servers: str, entries: int, pending: int, session_timeout_ms: int) -> None:
        self._servers = servers
        self._session_timeout_ms = session_timeout_ms
        self._rng = np.random.default_rng()
        self.log = AckLog(servers, PARTITIONS)
        for partition in range(PARTITIONS):
            self.log.init(partition, *self._tree(partition))
        self.log.fill(pending, (entries - pending) // 2, BATCH)
        self.entries = int(sum(each[-1] for each in self.log.entries()))
        self._window_records = self.log.records()

    def run(self, laps: int) -> list[Lap]:
        """Lets one worker after the other die.

        Raises:
            SilenceError, WorkerEndedError: if a worker does not do what it has to.
        """
        with ExitStack() as living:
            worker = living.enter_context(self._worker())
            worker.await_event(_TOOK_OVER, _EVENT_S)
            self.log.await_notices(self.log.trees)
            found = []
            for _ in range(laps):
                lap, worker = self._lap(worker, living)
                found.append(lap)
        return found

    def _lap(self, worker: WorkerChild, living: ExitStack) -> tuple[Lap, WorkerChild]:
        trees = [self._tree(partition) for partition in range(PARTITIONS)]
        for partition, tree in enumerate(trees):
            self.log.init(partition, *tree)
        self.log.flush()
        self._await_committed()
        killed = worker.kill()
        successor = living.enter_context(self._worker())
        for partition, tree in enumerate(trees):
            self.log.ack(partition, *tree)
        self.log.flush()
        imported = successor.await_event(IMPORTED, _EVENT_S).at
        compiled = successor.await_event(COMPILED, _EVENT_S).at
        took_over = successor.await_event(_TOOK_OVER, _EVENT_S).at
        rebuilt = [successor.await_event(_REBUILT, _EVENT_S) for _ in range(PARTITIONS)]
        told = self.log.await_notices(PARTITIONS)
        self._check(event.said for event in rebuilt)
        times = [notice.at_ms / 1000 - killed for notice in told]
        lap = Lap(
            start_s=imported - killed,
            compile_s=compiled - imported,
            takeover_s=took_over - compiled,
            rebuild_s=max(event.at for event in rebuilt) - took_over,
            first_notice_s=min(times),
            last_notice_s=max(times),
        )
        return lap, successor

    def _worker(self) -> WorkerChild:
        return WorkerChild(self.log.topology, self._servers, self._session_timeout_ms)

    def _tree(self, partition: int) -> tuple[IdColumn, IdColumn]:
        """A new tree of that partition: its root and the edge of its only tuple."""
        drawn, edge = self._rng.integers(1, 2**63, size=2, dtype=np.uint64).tolist()
        root = drawn // PARTITIONS * PARTITIONS + partition
        return np.array([root], dtype=np.uint64), np.array([edge], dtype=np.uint64)

    def _await_committed(self) -> None:
        pause, deadline = threading.Event(), time.monotonic() + _EVENT_S
        while (committed := self.log.committed()) != self.log.ends():
            if time.monotonic() > deadline:
                raise SilenceError(f"the worker committed {committed}, and not the end, {self.log.ends()}")
            pause.wait(_LOOK_S)

    def _check(self, said: Iterable[str]) -> None:
        found = [_RECORDS.search(text) for text in said]
        records = sum(int(one["records"]) for one in found if one is not None)
        if records < self._window_records:
            raise SilenceError(f"only {records} of {self._window_records} records were read again")


def measure(servers: str, entries: int, pending: int, session_timeout_ms: int, rounds: int) -> Result:
    """Runs so many deaths."""
    deaths = Deaths(servers, entries, pending, session_timeout_ms)
    laps = deaths.run(rounds)
    deaths.log.close()

    def spread(of: Sequence[float]) -> Spread:
        return Spread.of(of, 3)

    return Result(
        entries=deaths.entries,
        pending=pending,
        partitions=PARTITIONS,
        session_timeout_ms=session_timeout_ms,
        entries_per_second=Spread.of([deaths.entries / lap.rebuild_s for lap in laps]),
        first_notice_s=spread([lap.first_notice_s for lap in laps]),
        last_notice_s=spread([lap.last_notice_s for lap in laps]),
        start_s=spread([lap.start_s for lap in laps]),
        compile_s=spread([lap.compile_s for lap in laps]),
        takeover_s=spread([lap.takeover_s for lap in laps]),
        rebuild_s=spread([lap.rebuild_s for lap in laps]),
    )


def main() -> None:
    parser = command.parser(__doc__, "a small window, two deaths")
    parser.add_argument("--entries", type=int, default=ENTRIES, help="in the window")
    parser.add_argument("--pending", type=int, default=PENDING, help="trees open in it")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="deaths; the median counts")
    given = parser.parse_args()
    entries, timeout, rounds = given.entries, SESSION_TIMEOUT_MS, given.rounds
    if given.quick:
        entries, timeout, rounds = _QUICK_ENTRIES, _QUICK_SESSION_TIMEOUT_MS, 2
    host = machine()
    with LocalKafka(heap="1g", jvm="server") as kafka:
        row = measure(kafka.bootstrap_servers, entries, given.pending, timeout, rounds)
    publish(report("rebuild", host, [row], {"rounds": rounds, "batch": BATCH}), command.directory(given))


if __name__ == "__main__":
    command.run(main)
