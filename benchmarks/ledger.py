"""How fast the ledger is and how much memory a pending tree takes, compared with Storm's own Acker.

    make bench-setup
    python -m benchmarks.ledger
    python -m benchmarks.ledger --pending 1000000 --rounds 5
    python -m benchmarks.ledger --quick --without-storm

All get a sliding window of trees: in turn, a batch of old trees is acked, in another order, and a batch of new ones is
initialised, so that every ack completes a tree. Our ledger takes each batch as two columns, as from the log;
Storm's `Acker.execute`, in a JVM, takes Storm's tuples one by one; a plain dict in Python is a yardstick that needs no
setting up. They take turns, round by round.
"""

import contextlib
import itertools
import json
import multiprocessing
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from acker_worker.kernels import ACK, INIT
from acker_worker.ledger import Ledger, LedgerSettings, Run, warm_up
from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError, Spread
from benchmarks.processes import resident_bytes
from benchmarks.setup import ACKER_WINDOW, require_storm, storm_program
from tuple_tree.ids import IdColumn
from tuple_tree.messages import AckBatch, SpoutAddress

BATCH: Final = 4_096
SETTINGS: Final = LedgerSettings(tick_ms=1_000, max_age_ms=300_000, orphan_timeout_ms=30_000)
SPOUT: Final = SpoutAddress("bench.notices.spout", 0, 30_000)
SIZES: Final = (100_000, 1_000_000, 10_000_000)
TURNS: Final = 4_000_000  # trees a round, at least; and at least one full turn of the window
WARM_ROUNDS: Final = 3  # not measured: Java compiles while it runs
_DICT_TURNS: Final = 1_000_000
_QUICK_TURNS: Final = 200_000

Round = Callable[[], float]
"""Runs a round, and returns messages (inits and acks) a second."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Trees of one round."""

    pending: int  # trees in the window
    turns: int  # trees that are acked, and as many that follow them; a multiple of `BATCH`
    roots: IdColumn  # shape `(pending + turns,)`; the window, then what follows it
    vals: IdColumn  # as `roots`
    order: NDArray[np.int64]  # shape `(turns,)`; index of each ack's root

    @classmethod
    def drawn(cls, pending: int, turns: int, seed: int = 7) -> "Window":
        """Draws them, always the same for a seed."""
        rng = np.random.default_rng(seed)
        turns = turns // BATCH * BATCH
        roots, vals = rng.integers(0, 2**64, size=(2, pending + turns), dtype=np.uint64)
        order = np.arange(pending + turns)
        half = max(pending // 2, 1)
        for start in range(0, len(order), half):
            rng.shuffle(order[start : start + half])
        return cls(pending, turns, roots, vals, order[:turns])

    def save(self, file: Path) -> None:
        """Writes roots, vals and order, each as 64-bit little-endian integers."""
        with file.open("wb") as out:
            for column in (self.roots, self.vals, self.order):
                column.astype("<u8").tofile(out)

    def batches(self, entries: int, spout: SpoutAddress) -> Iterator[AckBatch]:
        """The window in batches of `BATCH` inits, then, in turn, a batch of acks and one of as many inits."""
        session, sequence = uuid.uuid4().bytes, itertools.count()

        def init(trees: slice) -> AckBatch:
            roots, vals = self.roots[trees], self.vals[trees]
            return AckBatch("spout/0", session, next(sequence), spout=spout, init_roots=roots, init_vals=vals)

        for start in range(0, self.pending, BATCH):
            yield init(slice(start, min(start + BATCH, self.pending)))
        for start in range(0, self.turns, entries):
            end = min(start + entries, self.turns)
            acked = self.order[start:end]
            roots, vals = self.roots[acked], self.vals[acked]
            yield AckBatch("bolt/0", session, next(sequence), ack_roots=roots, ack_vals=vals)
            yield init(slice(self.pending + start, self.pending + end))


def apply(ledger: Ledger, rule: int, roots: IdColumn, vals: IdColumn) -> int:
    """Applies a rule to some roots; returns how many outcomes there are."""
    return len(ledger.apply([Run(rule, roots, vals, ledger.index_of(SPOUT))]))


def ledger_round(window: Window, clock: Callable[[], float]) -> Round:
    """The acker's ledger; the time of filling the window does not count."""
    acks, ack_vals = window.roots[window.order], window.vals[window.order]
    news, new_vals = np.array(window.roots[window.pending :]), np.array(window.vals[window.pending :])

    def run() -> float:
        ledger = Ledger(SETTINGS)
        for start in range(0, window.pending, BATCH):
            old = slice(start, min(start + BATCH, window.pending))
            apply(ledger, INIT, np.array(window.roots[old]), np.array(window.vals[old]))
        assert len(ledger) == window.pending
        acked = 0
        began = clock()
        for start in range(0, window.turns, BATCH):
            batch = slice(start, start + BATCH)
            acked += apply(ledger, ACK, acks[batch], ack_vals[batch])
            apply(ledger, INIT, news[batch], new_vals[batch])
        seconds = clock() - began
        assert acked == window.turns
        assert len(ledger) == window.pending
        return 2 * window.turns / seconds

    return run


def dict_round(window: Window, clock: Callable[[], float]) -> Round:
    """A plain dict of checksums in Python, one message at a time."""
    acks = list(zip(window.roots[window.order].tolist(), window.vals[window.order].tolist(), strict=True))
    # Other objects than those of the acks, as if they came from a log.
    trees = list(zip(window.roots.tolist(), window.vals.tolist(), strict=True))
    old, new = dict(trees[: window.pending]), trees[window.pending :]

    def run() -> float:
        ledger = dict(old)
        began = clock()
        for start in range(0, window.turns, BATCH):
            for root, val in acks[start : start + BATCH]:
                checksum = ledger[root] ^ val
                if checksum:
                    ledger[root] = checksum
                else:
                    del ledger[root]
            for root, val in new[start : start + BATCH]:
                ledger[root] = ledger.get(root, 0) ^ val
        seconds = clock() - began
        assert len(ledger) == window.pending
        return 2 * window.turns / seconds

    return run


class StormAcker:
    """Storm's `Acker.execute` in a JVM, which runs a round for each line that it is sent.

    It writes a JSON object on one line when it is ready, and one for each line that it reads. Raises `BenchmarkError`
    if Storm was not fetched.
    """

    def __init__(self, window: Window) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="bench-ledger-")
        file = Path(self._directory.name, "ids")
        window.save(file)
        # Room for two windows and all tuples of a round, three times over: G1 begins to mark, in parallel, once
        # 45 % of the heap are taken, and our tuples must not bring that about.
        heap_mb = 512 + 3 * (2 * 120 * window.pending + 2 * 160 * window.turns) // 2**20
        arguments = [str(file), str(window.pending), str(window.turns), str(BATCH)]
        command = storm_program(ACKER_WINDOW, heap_mb, *arguments)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ready = self._read()
        self.bytes_per_tree: float = ready["bytes_per_tree"]
        self.versions = {name: text for name, text in ready["versions"].items() if name != "heap_mb"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()

    def round(self) -> float:
        """Runs a round; returns messages a second."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the end of its output raises
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        return float(self._read()["messages_per_second"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"Storm's Acker ended with exit code {self._process.wait()}: see what it wrote above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def measure(pending: int, turns: int, rounds: int, with_storm: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """The row of one size, and the versions of Storm."""
    window = Window.drawn(pending, max(turns, pending))
    fewer = Window.drawn(pending, min(window.turns, _DICT_TURNS))
    # A process of its own, so that nothing but the ledger takes memory.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
        taken = own.submit(memory, pending).result()
    sides = {"ledger": ledger_round(window, time.perf_counter), "dict": dict_round(fewer, time.perf_counter)}
    with StormAcker(window) if with_storm else nullcontext() as storm:
        if storm is not None:
            sides["storm"] = storm.round
        taken_turns = harness.in_turn(sides, rounds, warm=WARM_ROUNDS, shown="{:,.0f}/s".format)
    row: dict[str, Any] = {"pending": pending, **taken} | {name: Spread.of(each) for name, each in taken_turns.items()}
    if storm is None:
        return row, {}
    return {**row, "storm_bytes_per_tree": storm.bytes_per_tree}, storm.versions


def memory(pending: int) -> dict[str, Any]:
    """Measures the memory of the window: resident before the first tree, and with all trees pending."""
    warm_up()
    rng, ledger = np.random.default_rng(7), Ledger(SETTINGS)
    rng.integers(0, 2**64, size=(2, BATCH), dtype=np.uint64)
    before = resident_bytes()
    for start in range(0, pending, BATCH):
        roots, vals = rng.integers(0, 2**64, size=(2, min(BATCH, pending - start)), dtype=np.uint64)
        apply(ledger, INIT, roots, vals)
    after, peak = resident_bytes(), resident_bytes(peak=True)
    assert len(ledger) == pending
    return {
        "bytes_per_tree": round((after - before) / pending, 1),
        # While the table was copied to a larger one.
        "peak_bytes_per_tree": round((peak - before) / pending, 1),
        "table_load": round(ledger.load, 3),
    }


def main() -> None:
    bench = Benchmark("ledger", __doc__, quick="one small window, few rounds", rounds=7)
    bench.option("--pending", [*SIZES], quick=[SIZES[0]], nargs="+", type=int, help="sizes of the window")
    bench.option("--turns", TURNS, quick=_QUICK_TURNS, help="trees of a round, at least")
    bench.option("--without-storm", False, help="compare with a plain dict only")
    given = bench.start()
    if not given.without_storm:
        require_storm()
    rows, versions = [], dict[str, str]()
    for size in given.pending:
        harness.say(f"{size:,} pending trees …")
        row, storm = measure(size, given.turns, bench.rounds, not given.without_storm)
        rows.append(row)
        versions |= storm
    bench.publish(rows, versions, batch=BATCH, warm_rounds=WARM_ROUNDS)


if __name__ == "__main__":
    harness.run(main)
