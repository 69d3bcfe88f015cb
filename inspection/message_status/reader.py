"""Finds messages of a topology's sources by key or position, and reads their statuses."""

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from confluent_kafka import Message

from acker_worker.errors import UnsupportedVersionError
from acker_worker.progress import Progress as AckersProgress
from inspection.dead_letters import DeadLetter
from inspection.errors import MessageNotFoundError, RootNotFoundError, StatusError
from inspection.message_status.blocks import BlockReader
from inspection.message_status.evidence import dead_letter, last_attempt, last_failure, outcome_of
from inspection.message_status.key_search import KeySearch
from inspection.message_status.outcome_topics import OutcomeTopic
from inspection.message_status.output import key_as_text
from inspection.message_status.spouts import SourceSpout, SourceSpouts
from inspection.message_status.verdict import DEAD_LETTER, Evidence, LastFailure, MessageStatus, SourceMessage, judge
from inspection.notation import show_time
from inspection.trace.tree import Tree
from inspection.trace_reader import CLOCK_MS, TraceReader
from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import Place, Progress
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group, acks_topic, dead_letters_topic, notices_topic
from tuple_tree.outcome_records import OutcomeRecord
from tuple_tree.routing import acker_partition

_POSITION: Final = re.compile(r"(?:([^/]+)/)?([0-9]{1,9})/([0-9]{1,19})")
MOST: Final = 100
"""Messages with a key whose statuses are read."""
_NOT_COMMITTED_MS: Final = 60_000
"""How old an outcome may be whose offset is not committed: it takes a second."""
_NEAR: Final = 100_000
"""Offsets on either side of the time of a message, in which partitions are searched where its outcome is not likely."""


def status(
    topology: str,
    kafka: Mapping[str, Any],
    *,
    key: str | bytes | None = None,
    offset: str | None = None,
    since_ms: int | None = None,
    progress: Progress | None = None,
) -> MessageStatus:
    """The status of a message of a topology's source; give its key or its position.

    Args:
        kafka: librdkafka properties, at least `bootstrap.servers`.
        key: the key; the newest message with it counts.
        offset: `TOPIC/PARTITION/OFFSET`; without the topic if the topology reads only one.
        since_ms: how far back a key is searched, in milliseconds since the epoch; to the beginning unless given.
        progress: called while it reads, with a description, the number of offsets read, and the total.

    Raises:
        MessageNotFoundError: if there is no such message.
        StatusError: if the topology tracks no trees, or reads no topic, or the text is not a position.
        BrokerError: if there is no such topology, or no broker answers.
    """
    if (key is None) == (offset is None):
        raise StatusError("give the key or the position of the message: one of key= and offset=")
    with StatusReader(kafka, Catalogue(kafka).manifest(topology), progress) as reader:
        if offset is not None:
            return reader.of_position(offset)[0]
        wanted = key.encode() if isinstance(key, str) else key
        return reader.of_key(wanted or b"", since_ms)[0]


class StatusReader:
    """Reads statuses of messages; it joins no group and writes nothing. For one thread.

    Its methods raise `MessageNotFoundError`, another `StatusError`, or a `BrokerError`, as `status` does.
    """

    def __init__(self, kafka: Mapping[str, Any], manifest: Manifest, progress: Progress | None = None) -> None:
        if not manifest.acking:
            raise StatusError(
                f"topology {manifest.topology} is at_most_once: it follows no messages, so it does not know which are "
                "done. With TopologyBuilder(guarantee='at_least_once') it would"
            )
        self._kafka, self._manifest, self._progress = kafka, manifest, progress
        self._topology = manifest.topology
        self._reader = BlockReader(kafka, progress)
        self._spouts = SourceSpouts(kafka, manifest)
        self._published: Mapping[str, object] | None = None  # all manifests, when outcomes are read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def of_key(
        self, key: bytes, since_ms: int | None = None, *, topic: str | None = None, every: bool = False
    ) -> list[MessageStatus]:
        """The newest message with a key, or with `every` the newest `MOST`; a status for each spout that reads it.

        Args:
            since_ms: not older than that, by the timestamps of the records, in milliseconds since the epoch.
            every: whether older ones are wanted; this reads all partitions from `since_ms` on.
        """
        spouts = self._spouts.read(topic)
        topics = _chosen(spouts, topic)
        search = KeySearch(self._reader, key, every=every)
        found = search.messages(topics, since_ms)
        for spout in spouts:
            outcomes = None if found else self._outcomes(spout)
            if outcomes is not None:
                found = search.by_outcomes(outcomes, topics, since_ms)
        if not found:
            since = "" if since_ms is None else f" since {show_time(since_ms)}"
            raise MessageNotFoundError(
                f"{', '.join(topics)} has no message with key {key_as_text(key)}{since}: check the key, which is "
                "compared as bytes (--key-hex for one that is not text), search further back with --since, or name the "
                "position: --offset TOPIC/PARTITION/OFFSET"
            )
        chosen = found[: MOST if every else 1]
        # Again: the search may have taken long.
        spouts = self._spouts.read(topic)
        return [each for message in chosen for each in self._statuses(spouts, message, since_ms)]

    def of_position(self, text: str, since_ms: int | None = None) -> list[MessageStatus]:
        """The message at a position, `[TOPIC/]PARTITION/OFFSET`; a status for each spout that reads it.

        `since_ms` is how far back its attempts are searched, as in `acker trace`.
        """
        match = _POSITION.fullmatch(text)
        spouts = self._spouts.read(None if match is None else match[1])
        topic, number, offset = _position(text, spouts)
        place = topic, number
        counts = _chosen(spouts, topic)
        if number >= counts[topic]:
            raise MessageNotFoundError(
                f"{topic} has no partition {number}: it has {counts[topic]}, and the first is number 0"
            )
        kept = self._reader.offset_ranges([place])[place]
        found: list[Message] = []
        if offset in kept:
            self._reader.read("the message", {place: range(offset, offset + 1)}, found.append)
        record = next((each for each in found if each.offset() == offset), None)
        if record is not None:
            message = SourceMessage(topic, number, offset, record.key(), record.timestamp()[1])
        else:
            message = SourceMessage(topic, number, offset)
            done = [each.done.get(place) for each in spouts if topic in each.topics]
            if offset >= kept.stop or not any(each and Evidence(each).is_done(offset) for each in done):
                raise MessageNotFoundError(
                    f"{message.name} is not a message: "
                    + (
                        f"the offsets of {topic}[{number}] are {kept.start:,} to {kept.stop - 1:,}, without those of "
                        "aborted transactions, of their markers, and of messages that compaction has deleted"
                        if kept
                        else f"{topic}[{number}] is empty"
                    )
                )
        return self._statuses(spouts, message, since_ms)

    def _statuses(
        self, spouts: Iterable[SourceSpout], message: SourceMessage, since_ms: int | None
    ) -> list[MessageStatus]:
        return [self._status(spout, message, since_ms) for spout in spouts if message.topic in spout.topics]

    def _status(self, spout: SourceSpout, message: SourceMessage, since_ms: int | None) -> MessageStatus:
        place = message.topic, message.partition
        chain = tuple(bolt.name for bolt in self._manifest.chained_to(spout.name))
        begin = self._reader.offset_ranges([place])[place].start
        topic = self._outcomes(spout)
        skipped_to = spout.begins.get(place, 0)
        known = Evidence(spout.done.get(place), skipped_to, topic is not None, chain=chain, begin=begin)
        is_done = known.is_done(message.offset)
        outcome = None if topic is None else self._outcome(topic, spout, message, is_done=is_done)
        if not is_done:
            search = _AttemptSearch(self._kafka, self._manifest, self._reader, self._spouts, self._progress)
            tree, failure = search.of(spout, message, known.failures(message.offset), since_ms)
            control = self._spouts.cluster.catalogue.controls().get(self._topology)
            requested = known.requested if control is None else control.state
            known = replace(known, tree=tree, failure=failure, requested=requested)
        elif outcome is None or outcome.outcome == DEAD_LETTER:
            known = replace(known, letter=self._letter(message, spout))
        return judge(self._topology, spout.name, message, replace(known, outcome=outcome))

    def _outcomes(self, spout: SourceSpout) -> OutcomeTopic | None:
        if spout.manifest.outcomes is not None and self._published is None:
            self._published = self._spouts.cluster.catalogue.manifests()
        return OutcomeTopic.of(self._manifest, spout.name, self._published or {}, spout.partitions)

    def _outcome(
        self, topic: OutcomeTopic, spout: SourceSpout, message: SourceMessage, *, is_done: bool
    ) -> OutcomeRecord | None:
        """The outcome of a message; of one that is not done only a recent one, which is not committed yet."""
        near, far = topic.places(message.key)
        whole = self._reader.offset_ranges(near + far, None if is_done else _now_ms() - _NOT_COMMITTED_MS)
        later = whole if message.at_ms is None else self._reader.offset_ranges(near + far, message.at_ms)
        around = {place: offsets.start for place, offsets in later.items()}
        # A spout has it in the first ones, unless its partitioner was set, or the topic had fewer partitions.
        parts = [{place: whole[place] for place in near}, {place: _near(whole[place], around[place]) for place in far}]

        def has_letter_since(since_ms: int) -> bool:
            return self._letter(message, spout, since_ms) is not None

        return outcome_of(self._reader, parts, around, message, topic, has_letter_since)

    def _letter(self, message: SourceMessage, spout: SourceSpout, since_ms: int | None = None) -> DeadLetter | None:
        """The last dead letter of a message, or of a tuple of one of its attempts.

        Unless `since_ms` is given, all are read, because the clock of the producer of the message may be wrong.
        """
        at = message.topic, message.partition
        letters = self._reader.offset_ranges([(dead_letters_topic(self._topology), 0)], since_ms)
        return dead_letter(self._reader, letters, message, self._spouts.roots(spout, at, message.offset))


@dataclass(frozen=True, slots=True)
class _AttemptSearch:
    """Searches the last attempt at a message that is not done, and its last failure."""

    kafka: Mapping[str, Any]
    manifest: Manifest
    reader: BlockReader
    spouts: SourceSpouts
    progress: Progress | None

    def of(
        self, spout: SourceSpout, message: SourceMessage, failures: int, since_ms: int | None
    ) -> tuple[Tree | None, LastFailure | None]:
        roots = self.spouts.roots(spout, (message.topic, message.partition), message.offset)
        if not roots:
            return None, None
        with TraceReader(self.kafka, self.manifest, self.progress, self.spouts.cluster) as traces:
            since = traces.usual_since_ms if since_ms is None else min(since_ms, traces.usual_since_ms)
            log = self._log(spout, roots, failures, since)
            attempt = last_attempt(self.reader, log, roots)
            tree = None if attempt is None else self._tree(traces, attempt.root, attempt.at_ms)
        failure = None
        if failures or (tree is not None and tree.reason is not None):
            topic = notices_topic(self.manifest.topology, spout.name)
            places = [(topic, task) for task in range(spout.manifest.tasks)]
            failure = last_failure(self.reader, self.reader.offset_ranges(places, since), roots, self.manifest)
        return tree, failure

    def _tree(self, traces: TraceReader, root: int, began_ms: int) -> Tree | None:
        # An ack may have overtaken the init.
        begins = began_ms - 2 * self.manifest.tick_ms
        try:
            (tree,) = traces.trees([root], begins)
        except RootNotFoundError:  # retention has deleted it meanwhile
            return None
        # An acker drops the init of a session that has ended: that attempt is none.
        return None if tree.init is None else tree

    def _log(self, spout: SourceSpout, roots: Iterable[int], failures: int, since_ms: int) -> dict[Place, range]:
        """Where the ack log may have the init of the last attempt.

        An open tree began after the `rebuild_from` of its ackers. That of a message that has failed may be older, and
        a failure is committed within a second.
        """
        topic = acks_topic(self.manifest.topology)
        places = [
            (topic, each) for each in sorted({acker_partition(root, self.manifest.ack_partitions) for root in roots})
        ]
        log = self.reader.offset_ranges(places, since_ms)
        if failures:
            return log
        group = acker_group(self.manifest.topology)
        commits = self.spouts.cluster.commits.of({group: places}).get(group, {})
        recent = self.reader.offset_ranges(places, _now_ms() - spout.manifest.timeout_ms - CLOCK_MS)
        for place, offsets in log.items():
            if (commit := commits.get(place)) is not None and commit.offset <= offsets.stop:
                with suppress(UnsupportedVersionError):
                    rebuild_from = AckersProgress.of(commit.offset, commit.metadata).rebuild_from
                    log[place] = range(max(offsets.start, min(rebuild_from, recent[place].start)), offsets.stop)
        return log


def _chosen(spouts: Iterable[SourceSpout], topic: str | None) -> dict[str, int]:
    """The topics to search, with their numbers of partitions."""
    topics = {name: count for spout in spouts for name, count in spout.topics.items()}
    if topic is None:
        return topics
    if topic not in topics:
        raise StatusError(f"no spout reads topic {topic}: the group's commits are of {', '.join(sorted(topics))}")
    return {topic: topics[topic]}


def _position(text: str, spouts: Iterable[SourceSpout]) -> tuple[str, int, int]:
    match = _POSITION.fullmatch(text)
    topics = sorted(_chosen(spouts, None))
    if match is None or (match[1] is None and len(topics) > 1):
        raise StatusError(
            f"{text!r} is not a position: give TOPIC/PARTITION/OFFSET, or PARTITION/OFFSET if the topology reads only "
            f"one topic; it reads {', '.join(topics)}"
        )
    return match[1] or topics[0], int(match[2]), int(match[3])


def _near(offsets: range, middle: int) -> range:
    """The part of a range of offsets that is near an offset."""
    return range(max(offsets.start, middle - _NEAR), max(offsets.start, min(offsets.stop, middle + _NEAR)))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
