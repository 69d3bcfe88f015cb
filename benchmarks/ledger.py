"""How fast the ledger is and how much memory a pending tree takes, side by side with Storm's own Acker.

    make bench-setup
    python -m benchmarks.ledger
    python -m benchmarks.ledger --pending 1000000 --rounds 5
    python -m benchmarks.ledger --quick --without-storm

A window of trees is pending. In turn, a batch of old ones is acked, in another order, and a batch of new ones is
initialised, so that the window slides and every ack completes a tree. Our ledger gets each batch as two columns, as it
does from the log; Storm's `Acker.execute` gets Storm's tuples one by one, made beforehand, and a collector that only
counts. A plain dict in Python does the same, as a yardstick that needs no setting up. All get the same ids in the same
order, and are warm before a round counts. The sides take turns, round by round.

Memory is that of the same window in the same processes: what the kernel counts as resident for ours, and what is left
on the heap after a collection for Storm's, which flatters Storm: its JVM holds more.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import command
from benchmarks.ledger_ids import BATCH, WindowIds
from benchmarks.results import Spread, machine, publish, report
from benchmarks.setup.storm import ACKER_WINDOW, program
from benchmarks.sides import Side

SIZES: Final = (100_000, 1_000_000, 10_000_000)
TURNS: Final = 4_000_000
"""Trees a round, at least; and at least one full turn of the window."""
DICT_TURNS: Final = 1_000_000
QUICK_SIZES: Final = (100_000,)
QUICK_TURNS: Final = 200_000
ROUNDS: Final = 7
WARM_ROUNDS: Final = 3
"""Before those that count: Java compiles while it runs."""


@dataclass(frozen=True)
class Result:
    """What one size gave.

    Attributes:
        pending: trees in the window.
        ledger: messages (inits and acks) a second.
        storm: the same of Storm's Acker.
        dict: the same of a plain dict in Python.
        speed_ratio: of the medians, ours to Storm's.
        dict_ratio: ours to the dict's.
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


def ours(side: str, file: Path, ids: WindowIds) -> Side:
    arguments = [side, str(file), str(ids.pending), str(ids.turns)]
    return Side(side, [sys.executable, "-m", "benchmarks.ledger_sides", *arguments])


def storm_heap_mb(ids: WindowIds) -> int:
    """Room for two windows and all tuples of a round, three times over.

    G1 begins to mark, beside the program, once 45 % of the heap are taken: our tuples must not bring that about.
    """
    return 512 + 3 * (2 * 120 * ids.pending + 2 * 160 * ids.turns) // 2**20


def storm(file: Path, ids: WindowIds) -> Side:
    """Storm's side.

    Raises:
        NotSetUpError: if it was not fetched.
    """
    arguments = [str(file), str(ids.pending), str(ids.turns), str(BATCH)]
    return Side("Storm's Acker", program(ACKER_WINDOW, storm_heap_mb(ids), *arguments))


def alternate(sides: Sequence[Side], rounds: int) -> list[list[float]]:
    """Messages a second of each side in each of the rounds that count."""
    rates: list[list[float]] = [[] for _ in sides]
    for number in range(WARM_ROUNDS + rounds):
        for side, into in zip(sides, rates, strict=True):
            rate = side.round()["messages_per_second"]
            if number >= WARM_ROUNDS:
                into.append(rate)
    return rates


def measure(pending: int, turns: int, rounds: int, with_storm: bool) -> tuple[Result, dict[str, str]]:
    """Runs one size; returns what it gave, and the versions of the peers."""
    with tempfile.TemporaryDirectory(prefix="bench-ledger-") as directory, ExitStack() as open_sides:
        file, few = Path(directory, "ids"), Path(directory, "few")
        ids = WindowIds.drawn(pending, max(turns, pending))
        ids.save(file)
        fewer = WindowIds.drawn(pending, min(ids.turns, DICT_TURNS))
        fewer.save(few)
        ledger = open_sides.enter_context(ours("ledger", file, ids))
        plain = open_sides.enter_context(ours("dict", few, fewer))
        sides = [ledger, plain]
        java = None
        if with_storm:
            java = open_sides.enter_context(storm(file, ids))
            sides.append(java)
        rates = [Spread.of(each) for each in alternate(sides, rounds)]
    storms = rates[2] if java else None
    theirs = java.said["bytes_per_tree"] if java else None
    result = Result(
        pending=pending,
        ledger=rates[0],
        storm=storms,
        dict=rates[1],
        speed_ratio=round(rates[0].median / storms.median, 2) if storms else None,
        dict_ratio=round(rates[0].median / rates[1].median, 1),
        storm_bytes_per_tree=theirs,
        memory_ratio=round(ledger.said["bytes_per_tree"] / theirs, 3) if theirs else None,
        **ledger.said,
    )
    return result, java.said["versions"] if java else {}


def run(sizes: Sequence[int], turns: int, rounds: int, *, with_storm: bool) -> dict[str, Any]:
    """Runs each size.

    Raises:
        NotSetUpError: if Storm was not fetched.
    """
    host, rows, peers = machine(), [], dict[str, str]()
    for size in sizes:
        print(f"{size:,} pending trees …", file=sys.stderr, flush=True)
        row, found = measure(size, turns, rounds, with_storm)
        rows.append(row)
        peers |= {name: text for name, text in found.items() if name != "heap_mb"}
    settings = {"batch": BATCH, "turns": turns, "rounds": rounds, "warm_rounds": WARM_ROUNDS}
    return report("ledger", host, rows, settings, peers)


def main() -> None:
    parser = command.parser(__doc__, "small windows, few rounds")
    parser.add_argument("--pending", type=int, nargs="+", default=list(SIZES), help="sizes of the window")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each size; the median counts")
    parser.add_argument("--without-storm", action="store_true", help="against a plain dict only; not kept by itself")
    given = parser.parse_args()
    sizes, turns, rounds = (QUICK_SIZES, QUICK_TURNS, 3) if given.quick else (given.pending, TURNS, given.rounds)
    found = run(sizes, turns, rounds, with_storm=not given.without_storm)
    publish(found, command.directory(given, whole=not given.without_storm))


if __name__ == "__main__":
    command.run(main)
