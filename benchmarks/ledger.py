"""How fast the ledger is, and how much memory a pending tree takes.

    python -m benchmarks.ledger --json

A window of trees is pending. In turn, a batch of new trees is initialised and a batch of old ones is acked, in another
order, so that the window slides and every ack completes a tree. Ids and orders are prepared beforehand. Each size runs
in a process of its own: resident memory is read from the operating system, before the first tree and with all of them
pending, and covers whatever the process holds for them. A plain dict does the same, in the same run, as a yardstick.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from acker_worker.ledger import Ledger, LedgerSettings, warm_up
from tuple_tree.messages import SpoutTask

BATCH: Final = 4_096
SIZES: Final = (100_000, 1_000_000, 10_000_000)
MESSAGES: Final = 8_000_000
"""Messages a round, at least; and at least one full turn of the window."""
DICT_MESSAGES: Final = 2_000_000
SETTINGS: Final = LedgerSettings(tick_ms=1_000, max_age_ms=300_000, orphan_timeout_ms=30_000)
SPOUT: Final = SpoutTask("bench.notices.spout", 0, 30_000)
SEED: Final = 7

Ids = NDArray[np.uint64]


@dataclass(frozen=True)
class Result:
    """What one size gave.

    Attributes:
        pending: trees in the window.
        messages_per_second: inits and acks, median of the rounds.
        rounds: of each round.
        bytes_per_tree: growth of resident memory by filling the window, divided by its trees.
        peak_bytes_per_tree: the same at its highest, while the table was being copied to a larger one.
        table_load: share of the table's homes that is taken.
        dict_messages_per_second: a plain dict, one message at a time in Python.
        ratio_to_dict: of the two.
    """

    pending: int
    messages_per_second: float
    rounds: list[float]
    bytes_per_tree: float
    peak_bytes_per_tree: float
    table_load: float
    dict_messages_per_second: float
    ratio_to_dict: float


def resident(peak: bool = False) -> int:
    """Resident memory of this process in bytes, as the kernel counts it."""
    field = "VmHWM:" if peak else "VmRSS:"
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def measure(pending: int, rounds: int) -> Result:
    """Runs one size in this process."""
    warm_up()
    ledger = Ledger(SETTINGS)
    rng = np.random.default_rng(SEED)
    drawn = [rng.integers(0, 2**64, size=(2, BATCH), dtype=np.uint64) for _ in range(2)]  # pages of the generator
    before = resident()
    # The same ids are drawn again below: what is prepared must not lie in memory while memory is measured.
    rng = np.random.default_rng(SEED)
    for start in range(0, pending, BATCH):
        drawn[0] = rng.integers(0, 2**64, size=(2, BATCH), dtype=np.uint64)
        roots, vals = drawn[0][:, : min(BATCH, pending - start)]
        ledger.init(roots, vals, SPOUT)
    after, peak = resident(), resident(peak=True)
    assert len(ledger) == pending

    turns = max(MESSAGES // 2, pending) // BATCH * BATCH
    roots, vals, order = _prepared(pending, turns)
    acks, ack_vals = roots[order], vals[order]
    rates = []
    for _ in range(rounds):
        rates.append(_slide(ledger, pending, turns, roots, vals, acks, ack_vals))
        # The window ends where the ids end; what is still pending becomes the next round's beginning.
        ledger = Ledger(SETTINGS)
        for start in range(0, pending, BATCH):
            ledger.init(roots[start : min(start + BATCH, pending)], vals[start : min(start + BATCH, pending)], SPOUT)
    plain = _dict_rate(roots, vals, acks, ack_vals, min(pending, len(roots) - DICT_MESSAGES // 2))
    rate = median(rates)
    return Result(
        pending=pending,
        messages_per_second=round(rate),
        rounds=[round(r) for r in rates],
        bytes_per_tree=round((after - before) / pending, 1),
        peak_bytes_per_tree=round((peak - before) / pending, 1),
        table_load=round(ledger.load, 3),
        dict_messages_per_second=round(plain),
        ratio_to_dict=round(rate / plain, 1),
    )


def _prepared(pending: int, turns: int) -> tuple[Ids, Ids, NDArray[np.int64]]:
    """Roots and vals of the window and of all that follow it, and the order in which they are acked."""
    rng = np.random.default_rng(SEED)
    drawn = [rng.integers(0, 2**64, size=(2, BATCH), dtype=np.uint64) for _ in range(-(-pending // BATCH))]
    window = np.concatenate(drawn, axis=1)
    # The last block of the window is cut as it was above.
    keep = np.arange(pending)
    more = rng.integers(0, 2**64, size=(2, turns), dtype=np.uint64)
    roots, vals = np.concatenate([window[:, keep], more], axis=1)
    order = np.arange(pending + turns)
    half = max(pending // 2, 1)
    for start in range(0, len(order), half):
        rng.shuffle(order[start : start + half])
    return roots, vals, order[:turns]


def _slide(ledger: Ledger, pending: int, turns: int, roots: Ids, vals: Ids, acks: Ids, ack_vals: Ids) -> float:
    acked = 0
    began = time.perf_counter()
    for start in range(0, turns, BATCH):
        acked += len(ledger.ack(acks[start : start + BATCH], ack_vals[start : start + BATCH]))
        new = slice(pending + start, pending + start + BATCH)
        ledger.init(roots[new], vals[new], SPOUT)
    seconds = time.perf_counter() - began
    assert acked == turns
    assert len(ledger) == pending
    return 2 * turns / seconds


def _dict_rate(roots: Ids, vals: Ids, acks: Ids, ack_vals: Ids, pending: int) -> float:
    """The same with a dict of checksums, in plain Python, inputs as ready lists."""
    turns = DICT_MESSAGES // 2
    ledger: dict[int, int] = dict(zip(roots[:pending].tolist(), vals[:pending].tolist(), strict=True))
    new = list(zip(roots[pending : pending + turns].tolist(), vals[pending : pending + turns].tolist(), strict=True))
    old = list(zip(acks[:turns].tolist(), ack_vals[:turns].tolist(), strict=True))
    acked = 0
    began = time.perf_counter()
    for (root, val), (new_root, new_val) in zip(old, new, strict=False):
        checksum = ledger[root] ^ val
        if checksum:
            ledger[root] = checksum
        else:
            del ledger[root]
            acked += 1
        ledger[new_root] = ledger.get(new_root, 0) ^ new_val
    seconds = time.perf_counter() - began
    assert acked == len(old)
    return 2 * acked / seconds


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {"cpus": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}


def run(sizes: list[int], rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Runs each size in a process of its own."""
    results = []
    for size in sizes:
        say(f"{size:,} pending trees …")
        command = [sys.executable, "-m", "benchmarks.ledger", "--one", str(size), "--rounds", str(rounds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        results.append(json.loads(done.stdout))
    return {"benchmark": "ledger", "batch": BATCH, "rounds": rounds, **machine(), "results": results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else, on stdout")
    parser.add_argument("--pending", type=int, nargs="+", default=list(SIZES), help="sizes of the window")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each size; the median counts")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(asdict(measure(given.one, given.rounds))))
        return
    report = run(given.pending, given.rounds, lambda text: print(text, file=sys.stderr, flush=True))
    if given.json:
        print(json.dumps(report, indent=2))
        return
    for result in report["results"]:
        print(
            f"{result['pending']:>12,} pending: {result['messages_per_second'] / 1e6:6.1f} M messages/s, "
            f"{result['bytes_per_tree']:5.1f} bytes a tree, {result['ratio_to_dict']:.0f} x a plain dict"
        )


if __name__ == "__main__":
    main()
