"""How fast the ledger is and how much memory a pending tree takes, beside Storm's own Acker.

    make bench-setup
    python -m benchmarks.ledger
    python -m benchmarks.ledger --pending 1000000 --rounds 5
    python -m benchmarks.ledger --quick --without-storm

Our ledger gets each batch of a sliding window of trees (`benchmarks.window`) as two columns, as it does from the log;
Storm's `Acker.execute` gets Storm's tuples one by one, made beforehand, and a collector that only counts. A plain dict
in Python does the same, as a yardstick that needs no setting up. All get the same ids in the same order, and are warm
before a round counts. Each side is a process of its own, and they take turns, round by round.

Memory is that of the same window in the same processes: what the kernel counts as resident for ours, and what is left
on the heap after a collection for Storm's, which flatters Storm: its JVM holds more.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from acker_worker.ledger import Ledger, warm_up
from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import resident_bytes
from benchmarks.setup import ACKER_WINDOW, require_storm, storm_program
from benchmarks.window import BATCH, SETTINGS, SPOUT, Ids, Window, dict_round, ledger_round

TURNS: Final = 4_000_000
"""Trees a round, at least; and at least one full turn of the window."""
DICT_TURNS: Final = 1_000_000
WARM_ROUNDS: Final = 3
"""Before those that count: Java compiles while it runs."""
_SIZES: Final = (100_000, 1_000_000, 10_000_000)
_ROUNDS: Final = 7
_QUICK_TURNS: Final = 200_000


class Side:
    """A process with one side of the comparison, which runs a round for each line that it is sent.

    Args:
        name: for errors.
        command: starts it; it writes a JSON object on one line when it is ready, and one for each line it reads.

    Attributes:
        ready: what it wrote when it was ready: versions, and bytes a tree.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ready = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        if kind is not None:
            self._process.kill()
        self._process.stdin.close()
        self._process.wait()

    def round(self) -> float:
        """Runs a round; returns messages a second."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the end of its output raises
        return float(self._read()["messages_per_second"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"{self._name} ended with exit code {self._process.wait()}: see what it wrote above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True)
class Result:
    """One size of the window.

    Attributes:
        pending: trees in the window.
        ledger, storm, dict: messages (inits and acks) a second.
        speed_ratio, dict_ratio: of the medians, ours to Storm's and to the dict's.
        bytes_per_tree: growth of our resident memory by filling the window, divided by its trees.
        peak_bytes_per_tree: the same at its highest, while the table was being copied to a larger one.
        table_load: share of the table's homes that is taken.
        storm_bytes_per_tree: growth of Storm's heap after a collection.
        memory_ratio: ours to Storm's.
    """

    pending: int
    ledger: Spread
    storm: Spread | None
    dict: Spread
    speed_ratio: float | None
    dict_ratio: float
    bytes_per_tree: float
    peak_bytes_per_tree: float
    table_load: float
    storm_bytes_per_tree: float | None
    memory_ratio: float | None


def storm_side(file: Path, window: Window) -> Side:
    """Storm's `Acker.execute`. Raises `NotSetUpError` if Storm was not fetched."""
    # Room for two windows and all tuples of a round, three times over: G1 begins to mark, beside the program, once 45 %
    # of the heap are taken, and our tuples must not bring that about.
    heap_mb = 512 + 3 * (2 * 120 * window.pending + 2 * 160 * window.turns) // 2**20
    arguments = [str(file), str(window.pending), str(window.turns), str(BATCH)]
    return Side("Storm's Acker", storm_program(ACKER_WINDOW, heap_mb, *arguments))


def storm_versions(storm: Side) -> dict[str, str]:
    return {name: text for name, text in storm.ready["versions"].items() if name != "heap_mb"}


def measure(pending: int, turns: int, rounds: int, with_storm: bool) -> tuple[Result, dict[str, str]]:
    """One size, and the versions of Storm."""
    with tempfile.TemporaryDirectory(prefix="bench-ledger-") as directory, ExitStack() as stack:
        file, few = Path(directory, "ids"), Path(directory, "few")
        window = Window.drawn(pending, max(turns, pending))
        window.save(file)
        fewer = Window.drawn(pending, min(window.turns, DICT_TURNS))
        fewer.save(few)
        sides = {}
        for name, ids, trees in (("ledger", file, window), ("dict", few, fewer)):
            command = [sys.executable, "-m", "benchmarks.ledger", "--side", name, str(ids)]
            command += [str(trees.pending), str(trees.turns)]
            sides[name] = stack.enter_context(Side(name, command))
        if with_storm:
            sides["storm"] = stack.enter_context(storm_side(file, window))
        rounds_of = harness.in_turn(
            {name: side.round for name, side in sides.items()}, rounds, warm=WARM_ROUNDS, shown="{:,.0f}/s".format
        )
        ours, java = sides["ledger"].ready, sides["storm"].ready if with_storm else None
        versions = storm_versions(sides["storm"]) if with_storm else {}
    rates = {name: Spread.of(each) for name, each in rounds_of.items()}
    ledger, plain, storm = rates["ledger"], rates["dict"], rates.get("storm")
    result = Result(
        pending=pending,
        ledger=ledger,
        storm=storm,
        dict=plain,
        speed_ratio=round(ledger.median / storm.median, 2) if storm else None,
        dict_ratio=round(ledger.median / plain.median, 1),
        storm_bytes_per_tree=java["bytes_per_tree"] if java else None,
        memory_ratio=round(ours["bytes_per_tree"] / java["bytes_per_tree"], 3) if java else None,
        **ours,
    )
    return result, versions


def memory(file: Path, pending: int, turns: int) -> dict[str, Any]:
    """What the window takes: resident memory before the first tree, and with all of them pending."""
    with open(file, "rb") as ids:

        def batch_at(index: int, count: int) -> Ids:
            # Read and not mapped: pages of a mapped file would count as ours.
            ids.seek(8 * index)
            return np.frombuffer(ids.read(8 * count), dtype=np.uint64)

        ledger = Ledger(SETTINGS)
        batch_at(0, BATCH)
        before = resident_bytes(os.getpid())
        for start in range(0, pending, BATCH):
            count = min(BATCH, pending - start)
            ledger.init(batch_at(start, count), batch_at(pending + turns + start, count), SPOUT)
        after, peak = resident_bytes(os.getpid()), resident_bytes(os.getpid(), peak=True)
    assert len(ledger) == pending
    return {
        "bytes_per_tree": round((after - before) / pending, 1),
        "peak_bytes_per_tree": round((peak - before) / pending, 1),
        "table_load": round(ledger.load, 3),
    }


def serve(side: str, file: Path, pending: int, turns: int) -> None:
    """Is one of our sides: a round for each line of standard input."""
    ready: dict[str, Any] = {}
    if side == "ledger":
        warm_up()
        ready = memory(file, pending, turns)
    window = Window.load(file, pending, turns)
    run = (ledger_round if side == "ledger" else dict_round)(window, time.perf_counter)
    print(json.dumps(ready), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"messages_per_second": round(run())}), flush=True)


def main() -> None:
    parser = harness.parser(__doc__, "one small window, few rounds")
    parser.add_argument("--pending", type=int, nargs="+", default=list(_SIZES), help="sizes of the window")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="rounds of each size; the median counts")
    parser.add_argument("--without-storm", action="store_true", help="against a plain dict only; not kept by itself")
    given = parser.parse_args()
    sizes, turns, rounds = (given.pending, TURNS, given.rounds) if not given.quick else (_SIZES[:1], _QUICK_TURNS, 3)
    kept_in = harness.directory(given, whole=not given.without_storm)
    if not given.without_storm:
        require_storm()
    harness.await_idle(kept_in)
    host, rows, versions = harness.machine(), [], dict[str, str]()
    for size in sizes:
        harness.say(f"{size:,} pending trees …")
        row, storm = measure(size, turns, rounds, not given.without_storm)
        rows.append(row)
        versions |= storm
    settings = {"batch": BATCH, "turns": turns, "rounds": rounds, "warm_rounds": WARM_ROUNDS}
    harness.publish("ledger", host, rows, settings, kept_in, versions=versions)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        serve(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        harness.run(main)
