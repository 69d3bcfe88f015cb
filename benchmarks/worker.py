"""How fast acker workers turn packed ack batches, already in a real topic, into delivered notices.

    make bench-setup
    python -m benchmarks.worker             # one worker, against Storm's Acker in memory
    python -m benchmarks.worker --curve     # by entries of a batch, partitions and workers
    python -m benchmarks.worker --quick --without-storm

Each partition of the ack log is filled beforehand with a sliding window of trees: the window is initialised first, then
batches of acks and of inits alternate, each batch a record. Every ack completes a tree, so the first notice comes when
the window is filled, and the last one when everything is folded. Workers, each a process of its own, read the log from
its beginning, anew in each round. Storm's side is that of `benchmarks.ledger`: `Acker.execute` in memory, with nothing
to read and nothing to deliver. docs/performance.md describes what is measured.
"""

import itertools
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, ConsumerGroupState, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from numpy.typing import NDArray

from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.ledger import BATCH, SIZES, TURNS, WARM_ROUNDS, Window, storm_side, storm_versions
from benchmarks.processes import running_ackers
from benchmarks.setup import require_storm
from benchmarks.topics import QUIET, Topics, broker
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest, Subscription
from tuple_tree.messages import AckBatch, SpoutAddress, decode_notice_batch, encode_ack_batch
from tuple_tree.names import acker_group, acks_topic, notices_topic
from tuple_tree.streams import declare

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
# No tree may time out while a log is filled, read, and read again.
_TIMEOUT_MS: Final = 1_800_000
_SILENT_SECONDS: Final = 120.0
_CONTACT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice about so many trees: the fold of a partition of the ack log had applied all before `position`."""

    partition: int
    position: int
    at_ms: int
    trees: int

    @classmethod
    def of(cls, message: Message) -> "Notice":
        if message.error() is not None:
            raise BenchmarkError(f"the notices cannot be read: {message.error()}")
        value = message.value()
        assert isinstance(value, bytes)
        notice = decode_notice_batch(value)
        if len(notice.failed_roots):
            raise BenchmarkError(f"{len(notice.failed_roots)} trees failed, which no bolt failed")
        return cls(notice.acks_partition, notice.acks_offset, message.timestamp()[1], len(notice.acked_roots))


class AckLog:
    """The ack log of a topology of one spout and one bolt, in which so many trees are acked."""

    def __init__(self, topics: Topics, partitions: int) -> None:
        self.topology = f"bench-{uuid.uuid4().hex[:8]}"
        self.partitions = partitions
        self.trees = 0
        self._topics = topics
        subscription = Subscription(source="spout", stream="default", grouping="shuffle")
        spout = SpoutManifest(name="spout", streams=(declare(["word"]),), timeout_ms=_TIMEOUT_MS)
        manifest = Manifest.of(
            topology=self.topology,
            ack_partitions=partitions,
            max_tree_age_ms=10 * _TIMEOUT_MS,
            components=(spout, BoltManifest(name="bolt", subscriptions=(subscription,))),
        )
        self._acks, notices = acks_topic(self.topology), notices_topic(self.topology, "spout")
        self._spout = SpoutAddress(notices, 0, _TIMEOUT_MS)
        topics.create_for(manifest)
        kafka = {"bootstrap.servers": topics.servers, **QUIET}
        self._admin = AdminClient(kafka)
        self._sizes: list[list[int]] = [[] for _ in range(partitions)]
        self._notices = Consumer({**kafka, "group.id": self.topology, "fetch.queue.backoff.ms": 50})
        self._notices.assign([TopicPartition(notices, 0, 0)])

    def close(self) -> None:
        """Deletes the topics: they are large."""
        self._notices.close()
        self._topics.delete(self.topology)

    def fill(self, pending: int, trees: int, batch: int) -> None:
        """Writes the window, in batches of `BATCH` entries, and what follows it; trees are over all partitions."""
        turns = -(-trees // self.partitions // BATCH) * BATCH
        lanes = [
            self._lane(partition, pending // self.partitions, turns, batch) for partition in range(self.partitions)
        ]
        # In turn, as all partitions are written in a topology.
        records = (record for step in itertools.zip_longest(*lanes) for record in step if record is not None)
        self._topics.write(self._acks, records, {"linger.ms": 5})
        self.trees += turns * self.partitions

    def _lane(self, partition: int, pending: int, turns: int, batch: int) -> Iterator[tuple[bytes, int, None]]:
        window = Window.drawn(pending, turns, seed=partition)
        roots = window.roots // np.uint64(self.partitions) * np.uint64(self.partitions) + np.uint64(partition)
        session, sequence = uuid.uuid4().bytes, itertools.count(1)

        def record(writer: str, **columns: Any) -> tuple[bytes, int, None]:
            entries = AckBatch(writer, session, next(sequence), **columns)
            self._sizes[partition].append(len(entries))
            return encode_ack_batch(entries), partition, None

        def init(trees: slice) -> tuple[bytes, int, None]:
            return record("spout/0", spout=self._spout, init_roots=roots[trees], init_vals=window.vals[trees])

        for start in range(0, pending, BATCH):
            yield init(slice(start, min(start + BATCH, pending)))
        for start in range(0, turns, batch):
            acked = window.order[start : start + batch]
            yield record("bolt/0", ack_roots=roots[acked], ack_vals=window.vals[acked])
            yield init(slice(pending + start, pending + min(start + batch, turns)))

    def entries(self) -> list[NDArray[np.int64]]:
        """For each partition, shape `(records + 1,)`: how many entries lie before each offset."""
        return [np.concatenate([[0], np.cumsum(sizes)]) for sizes in self._sizes]

    def await_notices(self) -> list[Notice]:
        """Reads on in the notices until they are about all trees."""
        notices: list[Notice] = []
        left, deadline = self.trees, time.monotonic() + _SILENT_SECONDS
        while left > 0:
            new = [Notice.of(message) for message in self._notices.consume(500, 0.05)]
            notices += new
            left -= sum(notice.trees for notice in new)
            if new:
                deadline = time.monotonic() + _SILENT_SECONDS
            elif time.monotonic() > deadline:
                raise BenchmarkError(f"{left:,} of {self.trees:,} trees were not acked: see what the workers wrote")
        if left < 0:
            raise BenchmarkError(f"{-left:,} trees more than {self.trees:,} were acked")
        return notices

    def shares(self) -> list[int]:
        """Partitions of each member of the ackers' group, in rising order."""
        group = acker_group(self.topology)
        members = self._admin.describe_consumer_groups([group])[group].result(_CONTACT_SECONDS).members
        return sorted(len(member.assignment.topic_partitions) if member.assignment else 0 for member in members)

    def forget_commits(self) -> None:
        """Deletes the ackers' group, so that the next worker begins anew; no worker may run."""
        group = acker_group(self.topology)
        described = self._admin.describe_consumer_groups([group])[group].result(_CONTACT_SECONDS)
        if described.state is not ConsumerGroupState.DEAD:
            self._admin.delete_consumer_groups([group])[group].result(_CONTACT_SECONDS)


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
