"""Tuple trees in Kafka: the ack log has the time of a tree, so only that part of the inboxes is read."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

from confluent_kafka import Message, TopicPartition

from acker_worker.progress import Progress as Committed
from inspection.errors import RootFormError, RootNotFoundError, TraceError
from inspection.notation import place_of_tuple, positions_of_message, show_root, show_time
from inspection.topology_status import ClusterStatus
from inspection.trace.ack_matching import checksum
from inspection.trace.records import RecordCollector, RootRecords, outcomes_of
from inspection.trace.tree import Tree, build_tree
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.log_reader import LogReader, Place, Progress, place_of
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, AnchorColumns
from tuple_tree.components import BoltManifest
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.messages import decode_notice_batch
from tuple_tree.names import acker_group, acks_topic, component_group, notices_topic, tuples_topic
from tuple_tree.positions import positional_root, topic_key

_AT_ONCE: Final = 500
CLOCK_MS: Final = 30_000
"""Milliseconds by which a component's clock may differ from the brokers' without its tuples being missed."""


class TraceReader:
    """Reads trees of a topology; for one thread. It takes the clients of a `ClusterStatus` if it is given one."""

    def __init__(
        self,
        kafka: KafkaSettings,
        manifest: Manifest,
        progress: Progress | None = None,
        cluster: ClusterStatus | None = None,
    ) -> None:
        if not manifest.acking:
            raise TraceError(
                f"topology {manifest.topology} is at_most_once: it has no tuple trees, so nothing can be traced. With "
                "TopologyBuilder(guarantee='at_least_once') it would have"
            )
        self._manifest = manifest
        self._topology = manifest.topology
        self._log = LogReader(kafka, progress)
        self._cluster = cluster or ClusterStatus(kafka)
        self._acks = acks_topic(manifest.topology)
        chains = {head.name: [bolt.name for bolt in manifest.chained_to(head.name)] for head in manifest.heads}
        self._chains = {head: chained for head, chained in chains.items() if chained}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def begun_since_ms(self, ended_ms: int) -> int:
        """Where the search begins for a tree whose notice has this time, in milliseconds since the epoch."""
        return ended_ms - self._manifest.max_tree_age_ms - CLOCK_MS

    @property
    def usual_since_ms(self) -> int:
        """Where searches begin by default: open trees began within one largest tree age, failed ones within two."""
        return time.time_ns() // 1_000_000 - 2 * self._manifest.max_tree_age_ms

    def oldest(self, count: int, since_ms: int, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """The roots that are open for longest, the oldest first: root → time of its first entry, to within a tick.

        The ledger is folded as a new owner of the partition would do it: from the `rebuild_from` of its commit
        on, or, where there is none, from `since_ms` on.
        """
        # Here, because it loads numba, which takes longer than most searches.
        from acker_worker.fold import LogRecord, PartitionFold
        from acker_worker.ledger import LedgerSettings

        topology, whole_log = self._topology, range(self._manifest.ack_partitions)
        chosen = [*(whole_log if partitions is None else partitions)]
        if missing := [each for each in chosen if each not in whole_log]:
            raise TraceError(
                f"{self._acks} has no partition {missing[0]}: it has {len(whole_log)}, and the first is number 0"
            )
        settings = LedgerSettings.of(self._manifest)
        places = [(self._acks, partition) for partition in chosen]
        # Before the end of the log, or a commit made in between would lie after it, as if the topic were another.
        commits = self._cluster.commits.of({acker_group(topology): places}).get(acker_group(topology), {})
        whole = self._log.offset_ranges(places)
        recent = self._log.offset_ranges(places, since_ms)
        folds = {
            place: PartitionFold(
                place[1], len(whole_log), settings, _reached(commits.get(place), whole[place]), recent[place].start
            )
            for place in places
        }
        waiting: dict[Place, list[LogRecord]] = {place: [] for place in places}

        def fold(message: Message) -> None:
            place = place_of(message)
            waiting[place].append(LogRecord(*_record(message)[1:]))
            if len(waiting[place]) >= _AT_ONCE:
                folds[place].apply(waiting[place])
                waiting[place].clear()

        offset_ranges = {place: range(folds[place].position, whole[place].stop) for place in places}
        self._log.read(f"the ledgers of {topology}", offset_ranges, fold)
        born: dict[int, int] = {}
        for place, each in folds.items():
            each.apply(waiting[place])
            # To the clock of the commit, which may have been moved without a record.
            each.advance(0)
            born |= {root: tick * settings.tick_ms for root, tick in each.ledger.oldest(count)}
        return dict(sorted(born.items(), key=lambda item: item[1])[:count])

    def oldest_trees(self, count: int, since_ms: int, partitions: Iterable[int] | None = None) -> list[Tree]:
        """The trees that are open for longest, the oldest first."""
        found = self.oldest(count, since_ms, partitions)
        if not found:
            return []
        # A birth is known to within a tick, and an ack may have overtaken its init.
        begins = min(found.values()) - 2 * self._manifest.tick_ms
        return self.trees(found, begins, any_of=True)

    def last_failed_trees(self, count: int, since_ms: int) -> list[Tree]:
        """The trees that failed last, the last one first, except trees that retention has deleted."""
        failed: dict[int, int] = {}

        def take(message: Message) -> None:
            try:
                batch = decode_notice_batch(message.value())
            except WireError:
                return
            for root, reason, _ in outcomes_of(batch):
                if reason is not None:
                    failed[root] = max(message.timestamp()[1], failed.get(root, 0))

        self._log.read("notices", self._log.offset_ranges(self._notice_places(), since_ms), take)
        last = sorted(failed, key=lambda root: -failed[root])[:count]
        return self.trees(last, self.begun_since_ms(failed[last[-1]]), any_of=True) if last else []

    def roots_of_message(self, text: str) -> list[int]:
        spout, positions = positions_of_message(text, self._manifest)
        group = component_group(self._topology, spout)
        notices = notices_topic(self._topology, spout)
        topics = sorted({topic for topic, _ in self._cluster.all_commits([group]).get(group, {})} - {notices})
        ids = [found for topic in topics if (found := self._cluster.catalogue.topic_id(topic)) is not None]
        if not ids:
            raise RootFormError(
                f"group {group} has no committed offsets of a source topic that exists, so spout {spout!r} has no "
                "roots that follow from positions: give the root, --oldest or --last-failed"
            )
        partitions = self._manifest.ack_partitions
        return [positional_root(position, topic_key(each), partitions) for each in ids for position in positions]

    def roots_of_tuple(self, text: str) -> list[int]:
        bolt, task, offset, index = place_of_tuple(text, self._manifest)
        place = (tuples_topic(self._topology, bolt), task)
        found: list[Message] = []
        kept = self._log.offset_ranges([place])[place]
        if kept.start <= offset < kept.stop:
            self._log.read("the tuple", {place: range(offset, offset + 1)}, found.append)
        if not found:
            raise RootFormError(
                f"{place[0]}[{task}] holds no record at offset {offset}: its offsets are {kept.start} "
                f"to {kept.stop - 1}"
            )
        headers: Any = found[0].headers()
        try:
            named = dict(headers or ())
            columns = AnchorColumns.read(named.get(ANCHORS_HEADER), named.get(ANCHOR_COUNTS_HEADER))
        except WireError as error:
            raise RootFormError(f"tuple {text} has no readable anchors: {error}") from error
        if index is not None and columns.tuples <= index and len(columns.roots):
            raise RootFormError(f"the record of {text} has {columns.tuples} tuples, and the first is number 0")
        chosen = columns if index is None else columns.part(index, index + 1)
        roots = [*dict.fromkeys(chosen.roots.tolist())]
        if not roots:
            raise RootFormError(f"tuple {text} belongs to no tree: it was emitted without anchors")
        return roots

    def trees(
        self, roots: Iterable[int], since_ms: int, *, any_of: bool = False, called: str | None = None
    ) -> list[Tree]:
        wanted = list(dict.fromkeys(roots))
        # In this order, the picture of a tree that is alive is right: what a group has committed was acked in the log
        # before, and a task sends the children before the ack. A tuple that is newer than the log is open in it.
        committed = self._bolts_committed()
        collector = RecordCollector(wanted, self._manifest)
        log = self._log.offset_ranges([(self._acks, partition) for partition in collector.ack_partitions], since_ms)
        self._log.read("the ack log", log, lambda message: collector.add_batch(*_record(message)))
        found = [collector.found[root] for root in wanted if collector.found[root].entries]
        if len(found) < (1 if any_of else len(wanted)):
            missing = next(root for root in wanted if not collector.found[root].entries)
            raise self._not_found(called or _named(wanted if any_of else [missing]), since_ms, log)
        begins = min(entry.at_ms for records in found for entry in records.entries) - CLOCK_MS
        self._log.read(
            "notices",
            self._log.offset_ranges(self._notice_places(), begins),
            lambda message: collector.add_notice(message.topic() or "", *_record(message)),
        )
        self._read_inboxes(collector, found, begins)
        spouts = [spout.name for spout in self._manifest.spouts]
        return [build_tree(records, committed, spouts, self._chains) for records in found]

    def _read_inboxes(self, collector: RecordCollector, found: list[RootRecords], since_ms: int) -> None:
        bolts = {tuples_topic(self._topology, bolt.name): bolt for bolt in self._reachable(found)}
        places = [(topic, task) for topic, bolt in bolts.items() for task in range(bolt.tasks)]
        ended_ms = _ended_ms(found)
        until = None if ended_ms is None else ended_ms + CLOCK_MS

        def take(message: Message) -> None:
            headers: Any = message.headers()
            if not headers:
                return
            task, offset, at_ms, payload = _record(message)
            collector.add_tuple(bolts[message.topic() or ""].name, task, offset, at_ms, headers, payload)

        self._log.read("inboxes", self._log.offset_ranges(places, since_ms, until), take)

    def _reachable(self, found: list[RootRecords]) -> list[BoltManifest]:
        """The bolts with inboxes that tuples of the trees' spouts can reach; all of them if an init is missing."""
        begun_by = [{entry.spout.topic for entry in records.entries if entry.spout is not None} for records in found]
        notices = set[str]().union(*begun_by) if all(begun_by) else {topic for topic, _ in self._notice_places()}
        spouts = {spout.name for spout in self._manifest.spouts if notices_topic(self._topology, spout.name) in notices}
        upstream = self._manifest.spouts_upstream
        return [bolt for bolt in self._manifest.inboxes if spouts & {spout.name for spout in upstream(bolt.name)}]

    def _notice_places(self) -> list[Place]:
        return [
            (notices_topic(self._topology, spout.name), task)
            for spout in self._manifest.spouts
            for task in range(spout.tasks)
        ]

    def _bolts_committed(self) -> dict[tuple[str, int], int]:
        """Bolt and task → committed offset, or the beginning; except components that keep their offsets elsewhere."""
        (status,) = self._cluster.of([self._manifest], self._cluster.catalogue.topics(), with_members=False)
        bolts = {tuples_topic(self._topology, bolt.name): bolt.name for bolt in self._manifest.inboxes}
        return {
            (bolts[topic.name], each.partition): each.begin if each.committed is None else each.committed
            for topic in status.topics
            if topic.name in bolts
            for each in topic.partitions
            if each.lag is not None
        }

    def _not_found(self, what: str, since_ms: int, log: Mapping[Place, range]) -> RootNotFoundError:
        searched = ", ".join(
            f"{topic}[{partition}] offsets {offsets.start:,} to {offsets.stop:,}"
            if len(offsets)
            else f"{topic}[{partition}], which is empty"
            for (topic, partition), offsets in sorted(log.items())
        )
        in_chain = ""
        if self._manifest.has_chained_spouts:
            in_chain = " A tree that stayed in the chain of its spout, and was acked within a second, has no entry."
        return RootNotFoundError(
            f"the ack log of {self._topology} has no entry of {what} since {show_time(since_ms)} "
            f"(searched: {searched}).{in_chain} If it is older, search further back: --since 1d; if it is of another "
            "topology, name that: --topology NAME"
        )


def _record(message: Message) -> tuple[int, int, int, bytes | None]:
    return message.partition() or 0, message.offset() or 0, message.timestamp()[1], message.value()


def _named(roots: list[int]) -> str:
    return f"root {show_root(roots[0])}" if len(roots) == 1 else f"{len(roots)} roots, from {show_root(roots[0])} on,"


def _reached(commit: TopicPartition | None, log: range) -> Committed | None:
    """The ackers' progress; None if they have committed none that has the beginning of their oldest tree."""
    if commit is None:
        return None
    reached, _ = Committed.of(commit.offset, commit.metadata).within(log.start, log.stop)
    # An offset that was committed by hand has no clock.
    return reached if reached is not None and reached.clock_ms else None


def _ended_ms(found: Sequence[RootRecords]) -> int | None:
    """When the last of the trees ended, by the ack log and the notices; None if one is open."""
    for records in found:
        has_init = any(entry.kind == "init" and not entry.dropped for entry in records.entries)
        if not records.outcomes and not (has_init and checksum(records.entries) == 0):
            return None
    times = [entry.at_ms for records in found for entry in records.entries]
    return max(times + [outcome.at_ms for records in found for outcome in records.outcomes])
