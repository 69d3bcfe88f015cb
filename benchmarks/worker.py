"""How fast acker workers turn packed ack batches, already in a real topic, into delivered notices.

    python -m benchmarks.worker
    python -m benchmarks.worker --pending 100000 --batch 1 10 100 1000 --workers 1 2
    python -m benchmarks.worker --quick

Each partition of the ack log is filled beforehand with a sliding window of trees: the window is initialised first, then
batches of acks and of inits alternate, each batch a record. Every ack completes a tree, so the first notice comes when
the window is filled, and the last one when everything is folded. Workers, each a process of its own, read the log from
its beginning, in each round again. `benchmarks.ledger` compares the fold alone with Storm's.
"""

import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from confluent_kafka import ConsumerGroupState, Message
from confluent_kafka.admin import ConsumerGroupDescription
from numpy.typing import NDArray

from acker_cli.processes.acker_pool import AckerPool
from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError, Spread, wait
from benchmarks.ledger import BATCH, SIZES, Window
from benchmarks.processes import running_ackers
from benchmarks.topics import Record, Topics, broker
from tuple_tree.components import BoltManifest, SpoutManifest, Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.messages import SpoutAddress, decode_notice_batch, encode_ack_batch
from tuple_tree.names import acker_group, acks_topic, notices_topic
from tuple_tree.streams import declare

_RECORDS: Final = 300_000
"""Records of a log at most, so that small batches are not read for hours."""
_BROKER: Final = {
    # All workers of a round come into the group's first generation, so that each reads only what it keeps.
    "group.initial.rebalance.delay.ms": "3000",
    # A notice has the time at which the broker appended it.
    "log.message.timestamp.type": "LogAppendTime",
}
# No tree may time out while a log is filled, read, and read again.
_TIMEOUT_MS: Final = 1_800_000
_PATIENCE_SECONDS: Final = 600.0
_CONTACT_SECONDS: Final = 30.0


class AckLog:
    """The ack log of a topology of one spout and one bolt, with this number of acked trees.

    It is filled with windows of `pending` trees in all, in batches of `BATCH` entries, and what follows them, in
    batches of `batch`; `trees` are over all partitions.
    """

    def __init__(self, topics: Topics, partitions: int, pending: int, trees: int, batch: int) -> None:
        self.topology = f"bench-{uuid.uuid4().hex[:8]}"
        self.partitions = partitions
        self._topics = topics
        subscription = Subscription(source="spout", stream="default", grouping="shuffle")
        spout = SpoutManifest(name="spout", streams=(declare(["word"]),), timeout_ms=_TIMEOUT_MS)
        manifest = Manifest.of(
            topology=self.topology,
            ack_partitions=partitions,
            max_tree_age_ms=10 * _TIMEOUT_MS,
            components=(spout, BoltManifest(name="bolt", subscriptions=(subscription,))),
        )
        topics.create_for(manifest)
        self._notices = notices_topic(self.topology, "spout")
        turns = -(-trees // partitions // BATCH) * BATCH
        self.trees = turns * partitions
        sizes: list[list[int]] = [[0] for _ in range(partitions)]

        def lane(partition: int) -> Iterator[Record]:
            window = Window.drawn(pending // partitions, turns, seed=partition)
            roots = window.roots // np.uint64(partitions) * np.uint64(partitions) + np.uint64(partition)
            address = SpoutAddress(self._notices, 0, _TIMEOUT_MS)
            for entries in replace(window, roots=roots).batches(batch, address):
                sizes[partition].append(len(entries))
                yield Record(encode_ack_batch(entries), partition)

        # In turn, as all partitions are written in a topology.
        records = itertools.zip_longest(*map(lane, range(partitions)))
        written = (record for step in records for record in step if record is not None)
        topics.write(acks_topic(self.topology), written, {"linger.ms": 5})
        self.entries: list[NDArray[np.int64]] = [np.cumsum(each) for each in sizes]
        """For each partition, shape `(records + 1,)`: how many entries lie before each offset."""

    def close(self) -> None:
        """Deletes the topics: they are large."""
        self._topics.delete(self.topology)

    def read(self, workers: int) -> float:
        """Lets new workers read the log from its beginning; returns entries a second."""
        self._forget_commits()
        first = self._topics.end(self._notices)
        with running_ackers(self._topics, self.topology, self.partitions, workers) as pool:
            self._await_acks(pool)
            members = self._group().members
            owned = [len(each.assignment.topic_partitions) if each.assignment else 0 for each in members]
            if owned != [self.partitions // workers] * workers:
                raise BenchmarkError(f"the {workers} workers own {owned} of {self.partitions} partitions: run it again")
        notices: list[Message] = []
        self._topics.read(self._notices, notices.append, first=first)
        return self._rate(notices)

    def _rate(self, messages: Sequence[Message]) -> float:
        """Entries a second from the first notice of the last partition to the last notice of all.

        A notice has the position before which all entries of its partition had been folded.
        """
        notices = [(decode_notice_batch(message.value() or b""), message.timestamp()[1]) for message in messages]
        if failed := sum(len(notice.failed_roots) for notice, _ in notices):
            raise BenchmarkError(f"{failed} trees failed, which no bolt failed")
        if (acked := sum(len(notice.acked_roots) for notice, _ in notices)) != self.trees:
            raise BenchmarkError(f"{acked:,} trees were acked instead of {self.trees:,}")
        first: dict[int, int] = {}
        for notice, at_ms in notices:
            first.setdefault(notice.acks_partition, at_ms)
        began, ended = max(first.values()), max(at_ms for _, at_ms in notices)
        if ended - began < 100:
            raise BenchmarkError(
                f"the log was read in {ended - began} ms: write more trees, so that it can be measured"
            )
        folded = {notice.acks_partition: notice.acks_offset for notice, at_ms in notices if at_ms <= began}
        entries = sum(int(self.entries[each][-1] - self.entries[each][position]) for each, position in folded.items())
        return entries / (ended - began) * 1000

    def _await_acks(self, pool: AckerPool) -> None:
        def all_acked() -> bool:
            pool.check()
            return pool.stats().trees_acked >= self.trees

        wait(all_acked, f"not all of {self.trees:,} trees were acked", _PATIENCE_SECONDS)

    def _forget_commits(self) -> None:
        """Deletes the ackers' group, so that the next worker reads from the beginning; no worker may run."""
        if self._group().state is not ConsumerGroupState.DEAD:
            group = acker_group(self.topology)
            self._topics.admin.delete_consumer_groups([group])[group].result(_CONTACT_SECONDS)

    def _group(self) -> ConsumerGroupDescription:
        group = acker_group(self.topology)
        described = self._topics.admin.describe_consumer_groups([group])[group].result(_CONTACT_SECONDS)
        assert isinstance(described, ConsumerGroupDescription)
        return described


def measure(
    topics: Topics, rounds: int, pending: int, trees: int, batch: int, partitions: int, workers: list[int]
) -> list[dict[str, Any]]:
    """The rows of one log, by the number of workers: entries (inits and acks) a second, all together."""
    log = AckLog(topics, partitions, pending, min(trees, _RECORDS * batch // 2), batch)
    harness.say(f"{pending:,} pending trees, {batch} entries a batch, by workers …")
    runs = {number: partial(log.read, number) for number in workers}
    rates = harness.in_turn(runs, rounds, shown="{:,.0f}/s".format)
    log.close()
    settings = {"pending": pending, "partitions": partitions, "batch": batch}
    entries = sum(int(each[-1]) for each in log.entries)
    return [
        {**settings, "workers": number, "entries": entries, "worker": Spread.of(of)} for number, of in rates.items()
    ]


def main() -> None:
    bench = Benchmark("worker", __doc__, quick="a short log, few rounds")
    bench.option("--pending", [*SIZES[:2]], quick=[SIZES[0]], nargs="+", type=int, help="sizes of the window")
    bench.option("--batch", [BATCH], quick=[500], nargs="+", type=int, help="entries of a record")
    bench.option("--partitions", 8, help="of the ack log, a multiple of the workers")
    bench.option("--workers", [1], nargs="+", type=int, help="that share the partitions")
    bench.option("--trees", 20_000_000, quick=2_000_000, help="that are acked in a round, at most")
    given = bench.start()
    with broker(_BROKER) as topics:
        rows = [
            row
            for pending in given.pending
            for batch in given.batch
            for row in measure(topics, bench.rounds, pending, given.trees, batch, given.partitions, given.workers)
        ]
    bench.publish(rows)


if __name__ == "__main__":
    harness.run(main)
