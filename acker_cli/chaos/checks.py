"""Checks after the faults: the messages of the sources, compared with trees, outcomes and dead letters."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from acker_cli.chaos.sources import Done, Offsets, SourceOffsets, is_done, not_done
from acker_cli.chaos.tree_log import TreeLog, Trees
from inspection.dead_letters import DeadLetter, parse
from inspection.errors import StatusError
from inspection.message_status import StatusReader
from inspection.message_status.outcome_topics import OutcomeTopic
from inspection.message_status.output import sentences
from inspection.notation import show_root
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import BrokerError
from kafka_clients.log_reader import LogReader, Place
from spout_sdk import Topology
from tuple_tree.done_sets import DoneSet
from tuple_tree.names import acks_topic, dead_letters_topic
from tuple_tree.positions import MAX_PARTITIONS, OFFSET_SHIFT, Position, position_word, topic_key, words_of_roots

MOST: Final = 10
"""Examples of a violation."""
OPEN: Final = "message open"
LOST: Final = "message done without an outcome"
FALSE_OUTCOME: Final = "message with outcome acked without an acked tree"
FALSE_ACK: Final = "tree acked, though by its ack log it is not"
NO_NOTICE: Final = "tree acked by its ack log, without a notice"
NOTHING: Final = "no message and no tree in this run: nothing was checked"
_COUNTED: Final = ("messages", "acked", "dead-letter", "skipped")
_Outcomes = defaultdict[tuple[str, int, int], set[str]]  # by topic, partition and offset
_NEVER: Final = DoneSet(0)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, and examples of it."""

    problem: str
    count: int  # of messages, trees or components
    examples: list[str]  # the first ten: messages as `topic[partition]@offset`, trees as their roots


@dataclass(slots=True)
class Verdict:
    """The outcomes of the messages and trees."""

    violations: list[Violation] = field(default_factory=list)
    # By source topic, the number of messages: all (`messages`), `acked`, `dead-letter` and `skipped`.
    sources: dict[str, dict[str, int]] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)  # of the run, by reason
    trees: dict[str, int] = field(default_factory=dict)  # `acked`, and failed ones by reason, by the kept notices

    def add(self, problem: str, found: Sequence[str]) -> None:
        """Adds a violation with all that were found; none if there are none."""
        if found:
            self.violations.append(Violation(problem, len(found), [*found[:MOST]]))


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a message.

    Attributes:
        is_done: in the commits of its spout.
        is_acked: of an attempt, by the fold; None where the trees are not in the ack log.
        is_dead_letter: whether it has a dead letter.
        outcomes: the records of its outcomes; None where its spout writes none.
        is_skipped: calls `translate` of its spout, and returns whether that skips it.
    """

    is_done: bool
    is_acked: bool | None
    is_dead_letter: bool
    outcomes: Set[str] | None
    is_skipped: Callable[[], bool]

    def judge(self) -> tuple[str, str]:
        """How the message has ended, and the problem with that; each is empty if there is none."""
        if not self.is_done:
            return "", OPEN
        if self.outcomes is not None:
            end = next((each for each in ("acked", "dead-letter", "skipped") if each in self.outcomes), "")
            return end, LOST if not end else FALSE_OUTCOME if end == "acked" and self.is_acked is False else ""
        if self.is_acked or self.is_dead_letter:
            return "acked" if self.is_acked else "dead-letter", ""
        if self.is_acked is None:
            return "", ""
        return ("skipped", "") if self.is_skipped() else ("", LOST)


class RunCheck:
    """The check of a run of a topology: made before it starts, `begin` when it runs, `end` after the faults.

    For one thread. Raises `BrokerError`.

    Attributes:
        messages: those to check, from `end` on.
    """

    def __init__(self, kafka: Mapping[str, Any], topology: Topology) -> None:
        self._kafka, self._topology, self._manifest = kafka, topology, topology.manifest
        self._sources = SourceOffsets(kafka, topology)
        self._begun: dict[str, dict[Place, int]] = {}
        self.messages: Offsets = {}
        counts, name = Catalogue(kafka).topics(), topology.name
        topics = [acks_topic(name), dead_letters_topic(name), *self._manifest.outcome_topics.values()]
        places = [(topic, number) for topic in topics for number in range(counts.get(topic, 0))]
        with LogReader(kafka) as reader:
            self._ends = {place: kept.stop for place, kept in reader.offset_ranges(places).items()}

    def begin(self) -> bool:
        """Notes where the spouts begin; False as long as one has not committed that."""
        if has_begun := self._sources.has_begun():
            self._begun = self._sources.begun()
        return has_begun

    def end(self) -> None:
        """Takes the messages that are in the sources now."""
        self.messages = self._sources.since(self._begun)

    def not_done(self) -> list[str]:
        """The source partitions with messages that are not done yet, a line each."""
        done = self._sources.done()
        counts = {
            place: not_done(offsets, done[spout].get(place, DoneSet(offsets.start)))
            for spout, ranges in self.messages.items()
            for place, offsets in ranges.items()
        }
        return [f"{topic}[{number}]: {count:,} messages not done" for (topic, number), count in counts.items() if count]

    def verdict(self) -> Verdict:
        """Compares all that is in Kafka."""
        # Before the logs are read: what is done by now has left its traces in them.
        done = self._sources.done()
        trees = TreeLog(self._manifest, self._ends).read(self._kafka) if self._manifest.acking else Trees()
        with LogReader(self._kafka) as reader:
            checker = Checker(self._kafka, self._topology, trees, self._ends, reader)
            return checker.check(self.messages, self._sources.before, done)


class Checker:
    """Reads what has become of the messages of a topology; for one thread. Raises `BrokerError`."""

    def __init__(
        self, kafka: Mapping[str, Any], topology: Topology, trees: Trees, began: Mapping[Place, int], reader: LogReader
    ) -> None:
        self._topology, self._manifest, self._trees, self._reader = topology, topology.manifest, trees, reader
        self._kafka, self._catalogue, self._began = kafka, Catalogue(kafka), began
        self._verdict = Verdict()
        self._letters, self._problems = defaultdict[Place, set[int]](set), defaultdict[str, list[str]](list)

    def check(self, messages: Offsets, before: Done, done: Done) -> Verdict:
        """Compares all messages, and all trees, with what was done before the run, and is done at its end."""
        trees, verdict = self._trees, self._verdict
        verdict.trees = {"acked": len(trees.acked_notices), **trees.reasons}
        self._read_dead_letters()
        for spout, ranges in messages.items():
            outcomes = self._outcomes(spout)
            for place, offsets in ranges.items():
                sets = before[spout].get(place, _NEVER), done[spout].get(place, _NEVER)
                self._check_partition(spout, place, offsets, *sets, outcomes)
        for problem, found in self._problems.items():
            verdict.add(problem, self._explained(found) if problem == OPEN else found)
        verdict.add(FALSE_ACK, [show_root(root) for root in trees.false_acks.tolist()])
        verdict.add(NO_NOTICE, [show_root(root) for root in trees.without_notice.tolist()])
        if not trees.new.size and not any(counts["messages"] for counts in verdict.sources.values()):
            verdict.add(NOTHING, [self._topology.name])
        return verdict

    def _check_partition(
        self, spout: str, place: Place, offsets: range, before: DoneSet, done: DoneSet, outcomes: _Outcomes | None
    ) -> None:
        acked, made = self._acked(spout, place, offsets), self._topology.factory(spout)()
        counts = self._verdict.sources.setdefault(place[0], dict.fromkeys(_COUNTED, 0))

        def take(message: Message) -> None:
            offset = message.offset() or 0
            if is_done(before, offset):
                return
            facts = Facts(
                is_done(done, offset),
                None if acked is None else offset in acked,
                offset in self._letters[place],
                None if outcomes is None else outcomes[*place, offset],
                lambda: made.translate(message) is None,  # type: ignore[union-attr]
            )
            end, problem = facts.judge()
            counts["messages"] += 1
            if end:
                counts[end] += 1
            if problem:
                self._problems[problem].append(f"{place[0]}[{place[1]}]@{offset}")

        self._reader.read(place[0], {place: offsets}, take)

    def _explained(self, found: list[str]) -> list[str]:
        """Open messages, the first one with its status: which component has not acked it, or why it failed."""
        first, *others = found
        with suppress(StatusError, BrokerError), StatusReader(self._kafka, self._manifest) as reader:
            (status, *_) = reader.of_position("/".join(re.split(r"\[|\]@", first)))
            first = f"{first}: {'; '.join(sentences(status, time.time_ns() // 1_000_000))}"
        return [first, *others]

    def _read_dead_letters(self) -> None:
        """The positions of dead letters of this run, which are counted by reason."""
        reasons = Counter[str]()

        def take(message: Message) -> None:
            if isinstance(letter := parse(message), DeadLetter):
                reasons[letter.reason] += 1
                self._letters[letter.topic, letter.partition].add(letter.position)

        self._read("dead letters", dead_letters_topic(self._topology.name), 1, take)
        self._verdict.dead_letters = dict(reasons)

    def _outcomes(self, spout: str) -> _Outcomes | None:
        """The outcomes of messages by topic, partition and offset; None of a spout that writes none."""
        counts, published = self._catalogue.topics(), self._catalogue.manifests()
        topic, found = OutcomeTopic.of(self._manifest, spout, published, counts), _Outcomes(set)
        if topic is None:
            return None

        def take(message: Message) -> None:
            if (outcome := topic.read(message)) is not None:
                found[outcome.topic, outcome.partition, outcome.offset].add(outcome.outcome)

        self._read("outcomes", topic.name, counts[topic.name], take)
        return found

    def _read(self, what: str, topic: str, partitions: int, take: Callable[[Message], None]) -> None:
        """Reads the records of this run."""
        places = self._reader.offset_ranges([(topic, number) for number in range(partitions)])
        new = {place: range(max(kept.start, self._began.get(place, 0)), kept.stop) for place, kept in places.items()}
        self._reader.read(what, new, take)

    def _acked(self, spout: str, place: Place, offsets: range) -> set[int] | None:
        """The offsets of messages with an attempt that the fold has acked, by their roots.

        None where trees are not in the ack log, or not always: with at most once, and in chains.
        """
        if not self._manifest.acking or self._manifest.chained_to(spout):
            return None
        topics = self._topology.kafka_sources[spout]
        topic_id = self._catalogue.topic_id(place[0])
        if topic_id is None:
            return set()
        number = topics.index(place[0]) * (MAX_PARTITIONS // len(topics)) + place[1]
        words = words_of_roots(self._trees.acked, topic_key(topic_id), self._manifest.ack_partitions)
        index = [each.name for each in self._manifest.spouts].index(spout)
        first, last = (
            np.uint64(position_word(Position(index, number, offset)) >> OFFSET_SHIFT)
            for offset in (offsets.start, offsets.stop)
        )
        positions: NDArray[np.uint64] = words >> np.uint64(OFFSET_SHIFT)
        of_place = positions[(positions >= first) & (positions < last)] - first
        return {offsets.start + each for each in of_place.tolist()}
