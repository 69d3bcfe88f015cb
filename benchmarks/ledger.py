"""How fast the ledger is and how much memory a pending tree takes, beside Storm's own Acker.

    make bench-setup
    python -m benchmarks.ledger
    python -m benchmarks.ledger --pending 1000000 --rounds 5
    python -m benchmarks.ledger --quick --without-storm

Our ledger gets each batch of a sliding window of trees (`benchmarks.window`) as two columns, as it does from the log;
Storm's `Acker.execute` gets Storm's tuples one by one; a plain dict in Python is a yardstick that needs no setting up.
Each side is a process of its own, and they take turns, round by round. docs/performance.md describes what is fair.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from acker_worker.ledger import Ledger, warm_up
from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import resident_bytes
from benchmarks.setup import ACKER_WINDOW, require_storm, storm_program
from benchmarks.window import BATCH, SETTINGS, SPOUT, Window, dict_round, ledger_round
from tuple_tree.ids import IdColumn

SIZES: Final = (100_000, 1_000_000, 10_000_000)
TURNS: Final = 4_000_000
"""Trees a round, at least; and at least one full turn of the window."""
WARM_ROUNDS: Final = 3
"""Before those that count: Java compiles while it runs."""
_DICT_TURNS: Final = 1_000_000
_QUICK_TURNS: Final = 200_000


class Side:
    """A process with one side of the comparison, which runs a round for each line that it is sent.

    The command writes a JSON object on one line when it is `ready`: versions, and bytes a tree; and one for each line
    that it reads.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ready = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate()

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


def storm_side(file: Path, window: Window) -> Side:
    """Storm's `Acker.execute`. Raises `NotSetUpError` if Storm was not fetched."""
    # Room for two windows and all tuples of a round, three times over: G1 begins to mark, beside the program, once 45 %
    # of the heap are taken, and our tuples must not bring that about.
    heap_mb = 512 + 3 * (2 * 120 * window.pending + 2 * 160 * window.turns) // 2**20
    arguments = [str(file), str(window.pending), str(window.turns), str(BATCH)]
    return Side("Storm's Acker", storm_program(ACKER_WINDOW, heap_mb, *arguments))


def storm_versions(storm: Side) -> dict[str, str]:
    return {name: text for name, text in storm.ready["versions"].items() if name != "heap_mb"}


def measure(pending: int, turns: int, rounds: int, with_storm: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """The row of one size, and the versions of Storm."""
    with tempfile.TemporaryDirectory(prefix="bench-ledger-") as directory, ExitStack() as stack:
        window = Window.drawn(pending, max(turns, pending))
        fewer = Window.drawn(pending, min(window.turns, _DICT_TURNS))
        sides = {}
        for name, trees in (("ledger", window), ("dict", fewer)):
            trees.save(Path(directory, name))
            arguments = [name, str(Path(directory, name)), str(trees.pending), str(trees.turns)]
            command = [sys.executable, "-m", "benchmarks.ledger", "--side", *arguments]
            sides[name] = stack.enter_context(Side(name, command))
        if with_storm:
            sides["storm"] = stack.enter_context(storm_side(Path(directory, "ledger"), window))
        contestants = {name: side.round for name, side in sides.items()}
        rounds_of = harness.in_turn(contestants, rounds, warm=WARM_ROUNDS, shown="{:,.0f}/s".format)
    rates = {name: Spread.of(each) for name, each in rounds_of.items()}
    ledger, plain, storm = rates["ledger"], rates["dict"], rates.get("storm")
    ours = sides["ledger"].ready
    of_storm = sides["storm"].ready["bytes_per_tree"] if storm else None
    row = {
        "pending": pending,
        "ledger": ledger,
        "storm": storm,
        "dict": plain,
        "speed_ratio": round(ledger.median / storm.median, 2) if storm else None,
        "dict_ratio": round(ledger.median / plain.median, 1),
        **ours,
        "storm_bytes_per_tree": of_storm,
        "memory_ratio": round(ours["bytes_per_tree"] / of_storm, 3) if of_storm else None,
    }
    return row, storm_versions(sides["storm"]) if storm else {}


def memory(file: Path, pending: int, turns: int) -> dict[str, Any]:
    """What the window takes: resident memory before the first tree, and with all of them pending."""
    with open(file, "rb") as ids:

        def batch_at(index: int, count: int) -> IdColumn:
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
        # While the table was copied to a larger one.
        "peak_bytes_per_tree": round((peak - before) / pending, 1),
        "table_load": round(ledger.load, 3),
    }


def serve(side: str, file: Path, pending: int, turns: int) -> None:
    """One of our sides: a round for each line of standard input."""
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
    parser.add_argument("--pending", type=int, nargs="+", default=list(SIZES), help="sizes of the window")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each size; the median counts")
    parser.add_argument("--without-storm", action="store_true", help="against a plain dict only; not kept by itself")
    given = parser.parse_args()
    sizes, turns, rounds = (SIZES[:1], _QUICK_TURNS, 3) if given.quick else (given.pending, TURNS, given.rounds)
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
