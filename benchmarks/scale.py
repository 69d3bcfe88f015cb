"""What a topology of many machines would take: bytes by the real codec, the rest by arithmetic from stated figures.

    python -m benchmarks.scale
    python -m benchmarks.scale --rate 9000000 --partitions 32 --linger 20

Nothing is measured here. A topology of a spout and so many bolts, one behind the other, is sized for a rate of trees:
what is written to each kind of topic, how many tasks there are, how full their ack batches are, and what the acker
workers have to do. `docs/performance.md` quotes it, and says what the figures that it begins with rest on. They were
measured with a record for each tuple, so that is what is sized: packs take less of everything.
"""

import argparse
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuple_tree.anchors import ANCHORS_HEADER, SOURCE_HEADER, pack_anchor
from tuple_tree.codec import encode_ack_batch, encode_notice_batch
from tuple_tree.ids import IdColumn
from tuple_tree.messages import AckBatch, NoticeBatch, SpoutTask

BATCH_HEADER: Final = 61
"""Bytes of Kafka's record batch, before its records."""
TUPLE_LINGER_MS: Final = 2
LEDGER_BYTES: Final = 48
"""Of an open tree."""
_NOTICES: Final = "orders.notices.source"


@dataclass(frozen=True, slots=True)
class Costs:
    """Figures that were measured or lie above that (`docs/performance.md`), in microseconds of CPU time.

    Attributes:
        spout: a tree, in the process of its spout.
        bolt: a tuple, in the process of a bolt that emits one.
        last: a tuple, in the process of a bolt that emits none.
        ack_record: an ack batch, in the acker worker, whatever is in it.
        ack_entry: each entry in it.
    """

    spout: float = 6.0
    bolt: float = 5.0
    last: float = 3.5
    ack_record: float = 12.5
    ack_entry: float = 0.055


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is wanted, and of which machines.

    Attributes:
        rate: trees a second.
        hops: bolts, one behind the other.
        payload: bytes of a tuple's value.
        replication: copies of each record.
        partitions: of the ack log.
        linger_ms: of ack batches.
        use: the part of a processor that a process may take.
        broker_mb: megabytes a second that a broker may write, copies included.
        open_s: seconds that a tree is open.
    """

    rate: float = 1e6
    hops: int = 3
    payload: int = 100
    replication: int = 3
    partitions: int = 8
    linger_ms: float = 5.0
    use: float = 0.5
    broker_mb: float = 200.0
    open_s: float = 0.1


def varint(number: int) -> int:
    """Bytes of a zigzag varint, as Kafka's records have them."""
    folded = number * 2 if number >= 0 else -number * 2 - 1
    return max(1, math.ceil(folded.bit_length() / 7))


def record_bytes(value: int, headers: dict[str, bytes], number: int = 100) -> int:
    """Bytes of a record without key in a batch of Kafka's format, the batch's own header left out.

    Args:
        value: bytes of the value.
        headers: name → value.
        number: of the record in its batch.
    """
    inside = 1 + 1 + varint(number) + varint(-1) + varint(value) + value + varint(len(headers))
    for name, content in headers.items():
        inside += varint(len(name)) + len(name.encode()) + varint(len(content)) + len(content)
    return varint(inside) + inside


def tuple_bytes(payload: int, records: float) -> float:
    """Bytes of a tuple with one anchor, its share of the header of a batch of so many records included."""
    headers = {ANCHORS_HEADER: pack_anchor(1, 2), SOURCE_HEADER: b"transform/default"}
    return record_bytes(payload, headers) + BATCH_HEADER / max(records, 1)


def _ids(entries: int) -> IdColumn:
    return np.arange(entries, dtype=np.uint64)


def ack_bytes(entries: int, *, inits: bool = False) -> int:
    """Bytes of an ack batch that is alone in its record batch: a writer has one for a partition at a time."""
    ids = _ids(entries)
    if inits:
        spout = SpoutTask(_NOTICES, 0, 30_000)
        batch = AckBatch("source/10", bytes(16), 1_000_000, spout=spout, init_roots=ids, init_vals=ids)
    else:
        batch = AckBatch("transform/10", bytes(16), 1_000_000, ack_roots=ids, ack_vals=ids)
    return BATCH_HEADER + record_bytes(len(encode_ack_batch(batch)), {}, 0)


def notice_bytes(roots: int) -> int:
    """Bytes of a notice batch that is alone in its record batch."""
    batch = NoticeBatch(acks_partition=1, acks_offset=1_000_000_000, acked_roots=_ids(roots))
    return BATCH_HEADER + record_bytes(len(encode_notice_batch(batch)), {}, 0)


@dataclass(frozen=True, slots=True)
class Scale:
    """What it takes.

    Attributes:
        spouts, bolts, lasts: tasks, one process each; `bolts` of all components that emit.
        tuple_mb, ack_mb, notice_mb: megabytes a second that are written to these topics, one copy.
        brokers: by what they write, copies included.
        entries_a_batch: of an ack batch.
        ack_batches: a second, all writers and partitions.
        acker_processors: fully used.
        ackers: worker processes; may be more than there are partitions, and then it cannot be done.
        most_writers: more tasks than that fill what one worker may take of a processor with the ack batches of a single
            partition, and then no number of partitions helps.
        open_trees: at any time.
        ledger_mb: of the tables of all workers.
    """

    spouts: int
    bolts: int
    lasts: int
    tuple_mb: float
    ack_mb: float
    notice_mb: float
    brokers: int
    entries_a_batch: float
    ack_batches: float
    acker_processors: float
    ackers: int
    most_writers: int
    open_trees: float
    ledger_mb: float

    @property
    def writers(self) -> int:
        """Tasks that write to the ack log."""
        return self.spouts + self.bolts + self.lasts


def scale(given: Assumptions, costs: Costs | None = None) -> Scale:
    """Sizes a topology."""
    costs = costs or Costs()

    def tasks(cost: float) -> int:
        return math.ceil(given.rate * cost / 1e6 / given.use)

    spouts, bolt, lasts = tasks(costs.spout), tasks(costs.bolt), tasks(costs.last)
    bolts = (given.hops - 1) * bolt
    writers = spouts + bolts + lasts
    lingers = 1_000 / given.linger_ms

    # Each task sends to each task of the next component, and so fills a batch for each of them.
    pairs = [spouts * bolt, *[bolt * bolt] * (given.hops - 2), bolt * lasts]
    tuples = [given.rate * tuple_bytes(given.payload, given.rate * TUPLE_LINGER_MS / 1_000 / each) for each in pairs]

    entries = (1 + given.hops) * given.rate
    ack_batches = min(entries, writers * given.partitions * lingers)
    each = entries / ack_batches
    inits = given.rate / entries
    whole = max(1, round(each))
    ack_mb = ack_batches * (inits * ack_bytes(whole, inits=True) + (1 - inits) * ack_bytes(whole)) / 1e6
    # As often as batches come, each partition tells each task of the spout.
    notices = min(given.rate, given.partitions * spouts * lingers)
    notice_mb = notices * notice_bytes(max(1, round(given.rate / notices))) / 1e6

    processors = (ack_batches * costs.ack_record + entries * costs.ack_entry) / 1e6
    entry_share = entries / given.partitions * costs.ack_entry / 1e6
    most_writers = max(0, math.floor((given.use - entry_share) / (lingers * costs.ack_record / 1e6)))
    open_trees = given.rate * given.open_s
    tuple_mb = sum(tuples) / 1e6
    return Scale(
        spouts=spouts,
        bolts=bolts,
        lasts=lasts,
        tuple_mb=tuple_mb,
        ack_mb=ack_mb,
        notice_mb=notice_mb,
        brokers=math.ceil((tuple_mb + ack_mb + notice_mb) * given.replication / given.broker_mb),
        entries_a_batch=each,
        ack_batches=ack_batches,
        acker_processors=processors,
        ackers=math.ceil(processors / given.use),
        most_writers=most_writers,
        open_trees=open_trees,
        ledger_mb=open_trees * LEDGER_BYTES / 1e6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=1e6, help="trees a second")
    parser.add_argument("--hops", type=int, default=3, help="bolts, one behind the other")
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 4, 8, 16, 32], help="of the ack log")
    parser.add_argument("--linger", type=float, nargs="+", default=[5.0, 20.0], help="of ack batches, in milliseconds")
    given = parser.parse_args()
    cells = [
        (partitions, linger, scale(Assumptions(given.rate, given.hops, partitions=partitions, linger_ms=linger)))
        for linger in given.linger
        for partitions in given.partitions
    ]
    one = cells[0][2]
    print(f"tasks: {one.spouts} of the spout, {one.bolts} of bolts that emit, {one.lasts} of the last")
    print(f"tuples: {one.tuple_mb:,.0f} MB/s; open trees: {one.open_trees:,.0f}, {one.ledger_mb:.1f} MB in the ledgers")
    columns = ("P", "linger ms", "entries a batch", "ack batches/s", "ack log MB/s", "notices MB/s", "brokers")
    print("| " + " | ".join((*columns, "acker CPUs", "most writers")) + " |")
    print("|---|---|---|---|---|---|---|---|---|")
    for partitions, linger, found in cells:
        print(
            f"| {partitions} | {linger:g} | {found.entries_a_batch:,.0f} | {found.ack_batches:,.0f} "
            f"| {found.ack_mb:,.0f} | {found.notice_mb:,.0f} | {found.brokers} | {found.acker_processors:.1f} "
            f"| {found.most_writers:,} |"
        )


if __name__ == "__main__":
    main()
