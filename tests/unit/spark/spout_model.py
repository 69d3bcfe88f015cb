"""A spout in Spark without Spark, and a plain model of its tuples and their trees."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from spark_jobs import delivering
from spark_jobs.delivering import Delivered, SourceRoots, landed_as
from spark_jobs.entries import Record
from spout_sdk import StreamDeclaration
from tests.ack_log import FoldedLog, acked_roots
from tests.manifests import manifest
from tests.packs import tuples_of
from tests.spark.topologies import subscription
from tests.unit.spark.test_two_writes import LEDGER, LINES, PARTITIONS, rows_of
from tuple_tree.anchors import Edges
from tuple_tree.components import BoltManifest, Grouping, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.positions import Position, positional_root, topic_key
from tuple_tree.streams import SourceCodec, declare, source_stream

PAIRS = declare({"n": int, "word": str})
KEY = topic_key("GHbxwU_dQ5eLMDKfVpT7Vg")
EXPIRED_MS = 200_000
"""Longer than any tree without progress, and any entry without an init, is kept."""


def topology(
    stream: StreamDeclaration, bolts: Sequence[tuple[str, Grouping]], **settings: Any
) -> tuple[Manifest, SpoutManifest]:
    """lines → each of the bolts, and the spout."""
    lines = SpoutManifest(name="lines", streams=(stream,), timeout_ms=30_000)
    receivers = []
    for name, grouping in bolts:
        keys = ["line"] if grouping == "fields" else []
        receivers.append(BoltManifest(name=name, tasks=2, subscriptions=(subscription("lines", grouping, *keys),)))
    return manifest(lines, *receivers, topology="t", ack_partitions=PARTITIONS, **settings), lines


def deliver(
    send: Callable[[Sequence[Record]], object],
    *batches: Any,
    stream: StreamDeclaration = LINES,
    bolts: Sequence[tuple[str, Grouping]] = (("count", "shuffle"),),
    has_fields: bool = False,
    codec: SourceCodec | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> Delivered:
    """One attempt of a task, with the batches of its partition; of landed rows, unless a codec is given."""
    roots = SourceRoots(1, KEY, PARTITIONS)
    decoded_as = landed_as(stream) if codec is None else source_stream(stream, codec)
    of = *topology(stream, bolts, **settings), roots, has_fields, decoded_as
    return delivering.deliver(*of, send, iter(batches), **more)


@dataclass
class Attempt:
    """The report and the records of one attempt of a task."""

    report: Any
    inits: list[tuple[int, bytes]]  # partition and value of each batch
    letters: list[dict[str, Any]]
    packs: list[dict[str, Any]]

    def tuples(self, stream: StreamDeclaration = LINES, topic: str = "") -> list[tuple[Any, Edges]]:
        """The tuples, of a topic if one is given, with their edges."""
        packs = [pack for pack in self.packs if topic in ("", pack["topic"])]
        return [each for pack in packs for each in tuples_of(pack["value"], pack["headers"], stream)]

    def log(self) -> FoldedLog:
        """The ack log with the inits alone."""
        log = FoldedLog(PARTITIONS, LEDGER)
        for init in self.inits:
            log.append(*init)
        return log


def delivered(*batches: Any, **more: Any) -> Attempt:
    """Delivers batches as one attempt of a task."""
    sent: list[Record] = []
    return of_topics(deliver(sent.extend, *batches, **more), sent)


def of_topics(report: Any, sent: Sequence[Record]) -> Attempt:
    rows = rows_of([record for record in sent if record[0] != "t.acks"])
    letters = [row for row in rows if row["topic"] == "t.dead-letters"]
    inits = [(partition, value or b"") for topic, partition, _, value, _ in sent if topic == "t.acks"]
    return Attempt(report, inits, letters, [row for row in rows if row not in letters])


def messages(values: Sequence[bytes | None], first: int = 0, partition: int = 0, **fields: Any) -> Any:
    """Messages in Spark's columns."""
    size = len(values)
    of_headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "key": pa.array([b"k"] * size, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(["source"] * size),
        "partition": pa.array([partition] * size, pa.int32()),
        "offset": pa.array(range(first, first + size), pa.int64()),
        "headers": pa.array([[{"key": "mine", "value": b"kept"}]] * size, of_headers),
    }
    return pa.record_batch({**columns, **fields})


def root_of(offset: int, attempt: int = 0, partition: int = 0) -> int:
    return positional_root(Position(1, partition, offset, attempt), KEY, PARTITIONS)


@dataclass
class Copy:
    """A tuple of a message, as often as it is executed: its children, and whether the input was acked."""

    root: int
    edge: int
    runs: list[tuple[list[int], bool]] = field(default_factory=list)


class Trees:
    """Bolts that execute tuples of the spout, and the set of processed tuples."""

    def __init__(self, log: FoldedLog, rng: random.Random) -> None:
        self.log, self.rng = log, rng
        self.copies: list[Copy] = []
        self.children: list[tuple[int, int]] = []
        self.half: list[tuple[Copy, int]] = []
        self.done: set[int] = set()

    def act(self) -> set[int]:
        """One random step of the bolts; returns the roots that it acks."""
        choice = self.rng.random()
        if choice < 0.35 and self.copies:
            return self.execute(self.rng.choice(self.copies))
        if choice < 0.6 and self.half:
            copy, number = self.half.pop(self.rng.randrange(len(self.half)))
            copy.runs[number] = (copy.runs[number][0], True)
            return self.log.ack({copy.root: copy.edge})
        if choice < 0.93 and self.children:
            root, edge = self.children.pop(self.rng.randrange(len(self.children)))
            self.done.add(edge)
            return self.log.ack({root: edge})
        if choice < 0.97 and self.copies:
            root = self.rng.choice(self.copies).root
            return acked_roots(self.log.send(root, fails=[root]))
        if choice > 0.98:
            self.log.now_ms += EXPIRED_MS
        return set()

    def execute(self, copy: Copy) -> set[int]:
        edges = [self.rng.getrandbits(64) | 1 for _ in range(self.rng.randint(0, 2))]
        self.children += [(copy.root, edge) for edge in edges]
        if self.rng.random() < 0.5:
            # As a bolt of the SDK: one entry for the input and its children.
            copy.runs.append((edges, True))
            return self.log.ack({copy.root: reduce(xor, edges, copy.edge)})
        # As a bolt in Spark: first the children, later the input.
        copy.runs.append((edges, False))
        self.half.append((copy, len(copy.runs) - 1))
        acked: set[int] = set()
        for edge in edges:
            acked |= self.log.ack({copy.root: edge})
        return acked

    def processed(self, root: int) -> bool:
        """Whether any execution of a message's tuple is complete, with all of its children."""
        return any(
            is_acked and self.done.issuperset(edges)
            for copy in self.copies
            if copy.root == root
            for edges, is_acked in copy.runs
        )


Step = tuple[str, Any]


def attempt(values: Sequence[bytes], rng: random.Random) -> list[Step]:
    """The steps of one attempt of a task, in order; records that are sent together are delivered in any order."""
    steps: list[Step] = []

    def send(records: Sequence[Record]) -> None:
        made: list[Step] = [
            ("init", record) if record[0] == "t.acks" else ("tuple", row)
            for record, row in zip(records, rows_of(records), strict=True)
        ]
        rng.shuffle(made)
        steps.extend(made)

    half = len(values) // 2
    deliver(send, messages(values[:half]), messages(values[half:], half))
    return steps
