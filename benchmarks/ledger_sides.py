"""Our sides of the ledger's benchmark, each a process of its own: `python -m benchmarks.ledger_sides ledger …`.

`ledger` is the acker's; `dict` a plain dict of checksums in Python, one message at a time. Ids and orders are prepared
beforehand. Resident memory is read from the operating system, before the first tree and with all of them pending.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from acker_worker.ledger import Ledger, LedgerSettings, warm_up
from benchmarks.ledger_ids import BATCH, WindowIds
from benchmarks.processes import peak_resident_bytes, resident_bytes
from benchmarks.sides import serve
from tuple_tree.messages import SpoutAddress

SETTINGS: Final = LedgerSettings(tick_ms=1_000, max_age_ms=300_000, orphan_timeout_ms=30_000)
SPOUT: Final = SpoutAddress("bench.notices.spout", 0, 30_000)


def filled(ids: WindowIds, ledger: Ledger) -> None:
    """Initialises the window, a batch at a time, each copied out of the file first."""
    for start in range(0, ids.pending, BATCH):
        end = min(start + BATCH, ids.pending)
        ledger.init(np.array(ids.roots[start:end]), np.array(ids.vals[start:end]), SPOUT)
    assert len(ledger) == ids.pending


def ledger_memory(file: Path, pending: int, turns: int) -> dict[str, Any]:
    """What the window takes."""
    with open(file, "rb") as ids:

        def batch_at(index: int, count: int) -> "np.ndarray[Any, np.dtype[np.uint64]]":
            # Read and not mapped: pages of a mapped file would count as ours.
            ids.seek(8 * index)
            return np.frombuffer(ids.read(8 * count), dtype=np.uint64)

        ledger = Ledger(SETTINGS)
        batch_at(0, BATCH)
        before = resident_bytes(os.getpid())
        for start in range(0, pending, BATCH):
            count = min(BATCH, pending - start)
            ledger.init(batch_at(start, count), batch_at(pending + turns + start, count), SPOUT)
        after, peak = resident_bytes(os.getpid()), peak_resident_bytes(os.getpid())
    assert len(ledger) == pending
    return {
        "bytes_per_tree": round((after - before) / pending, 1),
        "peak_bytes_per_tree": round((peak - before) / pending, 1),
        "table_load": round(ledger.load, 3),
    }


def ledger_side(file: Path, pending: int, turns: int) -> None:
    warm_up()
    said = ledger_memory(file, pending, turns)
    ids = WindowIds.load(file, pending, turns)
    acks, ack_vals = ids.roots[ids.order], ids.vals[ids.order]
    news, new_vals = np.array(ids.roots[pending:]), np.array(ids.vals[pending:])

    def run() -> dict[str, Any]:
        ledger = Ledger(SETTINGS)
        filled(ids, ledger)
        acked = 0
        began = time.perf_counter()
        for start in range(0, turns, BATCH):
            batch = slice(start, start + BATCH)
            acked += len(ledger.ack(acks[batch], ack_vals[batch]))
            ledger.init(news[batch], new_vals[batch], SPOUT)
        seconds = time.perf_counter() - began
        assert acked == turns
        assert len(ledger) == pending
        return {"messages_per_second": round(2 * turns / seconds)}

    serve(said, run)


def dict_side(file: Path, pending: int, turns: int) -> None:
    ids = WindowIds.load(file, pending, turns)
    acks = list(zip(ids.roots[ids.order].tolist(), ids.vals[ids.order].tolist(), strict=True))
    news = list(zip(ids.roots[pending:].tolist(), ids.vals[pending:].tolist(), strict=True))

    def run() -> dict[str, Any]:
        ledger: dict[int, int] = dict(zip(ids.roots[:pending].tolist(), ids.vals[:pending].tolist(), strict=True))
        acked = 0
        began = time.perf_counter()
        for start in range(0, turns, BATCH):
            for root, val in acks[start : start + BATCH]:
                checksum = ledger[root] ^ val
                if checksum:
                    ledger[root] = checksum
                else:
                    del ledger[root]
                    acked += 1
            for root, val in news[start : start + BATCH]:
                ledger[root] = ledger.get(root, 0) ^ val
        seconds = time.perf_counter() - began
        assert acked == turns
        return {"messages_per_second": round(2 * turns / seconds)}

    serve({}, run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=["ledger", "dict"])
    parser.add_argument("file", type=Path, help="of ids")
    parser.add_argument("pending", type=int)
    parser.add_argument("turns", type=int)
    given = parser.parse_args()
    side = {"ledger": ledger_side, "dict": dict_side}[given.side]
    side(given.file, given.pending, given.turns)


if __name__ == "__main__":
    main()
