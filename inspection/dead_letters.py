"""The dead letters of a topology: records of `{topology}.dead-letters`, decoded, with filters and previews."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Message

from inspection.errors import DeadLettersError
from inspection.previews import PREVIEW_CHARACTERS, Previews, preview
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import BrokerError, UnknownTopologyError
from kafka_clients.log_reader import RECEIVE_TIMEOUT_SECONDS, LogReader
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.errors import ManifestError
from tuple_tree.headers import PREFIX, REPLAYED
from tuple_tree.manifest import Manifest
from tuple_tree.names import CHAIN_OF, dead_letters_topic, tuples_topic

Header = tuple[str, bytes | None]

_OURS: Final = tuple(PREFIX + name for name in ("topic", "partition", "offset", "reason", "detail", "by", "index"))
UNKNOWN: Final = "unknown"  # the reason of a record that another application has put there
COUNTED: Final = 10_000
"""The latest offsets of the dead letters that are read to count them."""
_NOWHERE: Final = -1
_DIGITS: Final = 19  # of an offset at most; Python refuses to read numbers that are very long
_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class DeadLetter:
    offset: int  # of the dead letter, by which it is named
    timestamp_ms: int  # of the dead letter, in milliseconds since the epoch
    key: bytes | None  # as it was
    value: bytes | None  # as it was; None if it had none, or left no room for the headers of a dead letter
    headers: tuple[Header, ...]  # its own, as they were
    topic: str  # the original one; `chain of HEAD` for a tuple of a chained bolt; empty if the headers lack it
    partition: int  # of that topic; -1 if the headers lack it
    position: int  # its offset there; -1 if the headers lack it
    reason: str  # a short, stable word
    detail: str  # a sentence
    by: str  # the task that could not use it, as `component/task`
    index: int = _NOWHERE  # which of the tuples of the original record; -1 for all of it

    @property
    def component(self) -> str:
        return self.by.partition("/")[0]

    @property
    def place(self) -> str:
        if not self.topic:
            return "unknown position"
        return f"{self.topic}[{self.partition}]@{self.position}" + ("" if self.index < 0 else f".{self.index}")


@dataclass(frozen=True, slots=True)
class Replay:
    of: int  # the offset of the dead letter
    timestamp_ms: int  # when, in milliseconds since the epoch


def parse(message: Message) -> DeadLetter | Replay:
    """Reads a record of `{topology}.dead-letters`; no content is invalid."""
    # Its type allows a mapping of headers, and text, which only records to be sent have.
    pairs: Any = message.headers() or ()
    headers: list[Header] = [*pairs]
    key, value, timestamp_ms = message.key(), message.value(), message.timestamp()[1]
    if key is None and value is None and len(headers) == 1 and headers[0][0] == REPLAYED:
        of = _number(_text(headers[0][1]))
        if of >= 0:
            return Replay(of, timestamp_ms)
    # Its own headers may be of an earlier dead letter: the last ones are of this one.
    added: dict[str, bytes | None] = {}
    end = len(headers)
    while end and headers[end - 1][0] in _OURS and headers[end - 1][0] not in added:
        end -= 1
        added[headers[end][0]] = headers[end][1]
    topic, partition, position, reason, detail, by, index = (_text(added.get(name)) for name in _OURS)
    place = topic, _number(partition), _number(position)
    record = message.offset() or 0, timestamp_ms, key, value, tuple(headers[:end])
    return DeadLetter(*record, *place, reason or UNKNOWN, detail, by, _number(index))


class DeadLetterCount:
    """How many dead letters there are: markers of transactions and notes of replays are none, but have offsets.

    Of more than `COUNTED` offsets, those before count as a dead letter each. `read` returns the records of offsets, and
    up to which offset they could be read: an open transaction holds readers back.
    """

    def __init__(self, read: Callable[[range], tuple[Iterable[Message], int]]) -> None:
        self._read = read
        self._offsets: deque[int] = deque()
        self._counted: range | None = None  # the offsets whose records were read

    def between(self, begin: int, end: int) -> int:
        """How many there are from the first offset of the topic on; reads only new ones."""
        counted = self._counted
        if counted is None or counted.stop > end:  # not read yet, or the topic was deleted and created again
            self._offsets.clear()
            counted = range(max(begin, end - COUNTED), max(begin, end - COUNTED))
        stop = counted.stop
        if stop < end:
            messages, stop = self._read(range(max(begin, stop), end))
            self._offsets.extend(each.offset() or 0 for each in messages if isinstance(parse(each), DeadLetter))
        self._counted = range(counted.start, stop)
        while self._offsets and self._offsets[0] < begin:
            self._offsets.popleft()
        return len(self._offsets) + max(0, counted.start - begin)


def read_dead_letters(kafka: KafkaSettings, topology: str, offsets: range) -> tuple[list[Message], int]:
    """The records of offsets of the dead letters that are committed, and the end of these."""
    found: list[Message] = []
    place = dead_letters_topic(topology), 0
    with LogReader(kafka) as reader:
        stop = min(offsets.stop, reader.offset_ranges([place])[place].stop)
        reader.read("dead letters", {place: range(offsets.start, stop)}, found.append)
    return found, max(offsets.start, stop)


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _number(text: str) -> int:
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else _NOWHERE


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, which must all match; an empty one matches everything."""

    reasons: frozenset[str] = frozenset()  # any of these
    topics: frozenset[str] = frozenset()  # any of these original topics
    components: frozenset[str] = frozenset()  # any of these that could not use it
    since_ms: int | None = None  # not before, in milliseconds since the epoch
    offsets: frozenset[int] = frozenset()  # any of these offsets of dead letters

    def __bool__(self) -> bool:
        return self != Selection()

    def takes(self, letter: DeadLetter) -> bool:
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.topics or letter.topic in self.topics)
            and (not self.components or letter.component in self.components)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (not self.offsets or letter.offset in self.offsets)
        )


class LetterPreviews:
    def __init__(self, manifest: Manifest | None) -> None:
        self._tuples: Final = None if manifest is None else Previews(manifest)
        self._of_tuples: Final = () if manifest is None else (tuples_topic(manifest.topology, ""), CHAIN_OF)

    def of(self, letter: DeadLetter, width: int = PREVIEW_CHARACTERS) -> str:
        return self.values(letter, width) or preview(letter.value, width)

    def values(self, letter: DeadLetter, width: int) -> str | None:
        """The values by field, at most `width` characters; None if it was not a tuple, or cannot be decoded."""
        if self._tuples is None or letter.value is None or not letter.topic.startswith(self._of_tuples):
            return None
        # As for a bolt, the last of a name counts.
        source = dict(letter.headers).get(SOURCE_HEADER) or b""
        component, _, stream = source.decode(errors="replace").partition("/")
        return self._tuples.values(component, stream, letter.value, width)


class DeadLetterLog:
    """The dead letters of a topology; `progress` is called repeatedly with the number of records read.

    Raises `UnknownTopologyError` if there is no such topology, `DeadLettersError` if it has no topic of dead letters.
    """

    def __init__(self, kafka: KafkaSettings, topology: str, progress: Callable[[int], None] | None = None) -> None:
        self._catalogue = Catalogue(kafka)
        self._topology = topology
        self._kafka = kafka
        self._progress = progress or (lambda _count: None)
        self.topic = dead_letters_topic(topology)
        self.partitions: Mapping[str, int] = self._catalogue.topics()
        """Topic → partitions, of all topics of the cluster."""
        if self.topic not in self.partitions:
            known = self._catalogue.manifests()
            if topology not in known:
                raise UnknownTopologyError(topology, sorted(known))
            raise DeadLettersError(
                f"topic {self.topic} does not exist, or this user has no DESCRIBE ACL for it: acker doctor {topology} "
                "shows what to do"
            )

    def entries(
        self, *, since_ms: int | None = None, start: int | None = None, until: int = 0
    ) -> Iterator[DeadLetter | Replay]:
        """Reads dead letters, and the records of their replays, up to the end.

        It begins at a time, in milliseconds since the epoch, or at an offset, and ends at `until` or later: it waits
        for transactions that are open before that. Raises `DeadLettersError` if no record comes for half a minute.
        """
        place = (self.topic, 0)
        with LogReader(self._kafka) as reader:
            kept = reader.offset_ranges([place], since_ms)[place]
            reader.assign({place: kept.start if start is None else max(kept.start, start)})
            deadline = time.monotonic() + RECEIVE_TIMEOUT_SECONDS
            count = 0
            while reader.ended.get(place, -1) < until:
                messages = reader.poll(_POLL_SECONDS)
                for message in messages:
                    count += 1
                    yield parse(message)
                self._progress(count)
                if messages:
                    deadline = time.monotonic() + RECEIVE_TIMEOUT_SECONDS
                elif time.monotonic() > deadline:
                    raise DeadLettersError(
                        f"topic {self.topic} cannot be read to its end, after {count} records: no broker answers, or "
                        f"a transaction that writes into it has been open for {RECEIVE_TIMEOUT_SECONDS:g} s. "
                        "Try again later"
                    )

    def fetch(self, offsets: Collection[int]) -> Iterator[DeadLetter]:
        """Reads single letters, in the order of their offsets, except letters that retention has deleted."""
        if not offsets:
            return
        last = max(offsets)
        for entry in self.entries(start=min(offsets)):
            offset = entry.offset if isinstance(entry, DeadLetter) else -1
            if isinstance(entry, DeadLetter) and offset in offsets:
                yield entry
            if offset >= last:
                return

    def previews(self) -> LetterPreviews:
        """Previews of the letters: tuples by field, or bytes if the manifest was deleted or cannot be read."""
        try:
            return LetterPreviews(self._catalogue.manifest(self._topology))
        except (BrokerError, ManifestError):
            return LetterPreviews(None)
