"""Reads messages of a spout's source by position, on the driver and without a Spark job.

After a restart, for what may have been delivered; and for messages whose trees failed, which are delivered again.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from kafka_clients.errors import BrokerError, TopicsError
from kafka_clients.log_reader import LogReader, Place
from spark_jobs.delivering import ATTEMPT, GIVEN_UP, Positions
from spark_jobs.errors import StoppedBetweenBatches, TopicsRefusedError
from spark_jobs.outcomes import Replays
from tuple_tree.positions import MAX_OFFSET, OFFSET_BITS

_RECEIVE_TIMEOUT_SECONDS: Final = 60.0
_MOST_BYTES: Final = 32 * 2**20
"""Bytes of values that are held at once, about."""

_WIDEST: Final = 10_000
"""Unwanted offsets in a row that are read: to begin at another offset takes as long as to read this number of them."""

_SCHEMA: Final = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
        ATTEMPT: pa.int16(),
        GIVEN_UP: pa.string(),
    }
)

Ranges = Mapping[int, range]
"""Offsets by source partition."""


class SourceReader:
    """Reads ranges of a topic, in the name of a group; for one thread at a time.

    `positions` and `read` raise `TopicsRefusedError` if the topic cannot be read, or its end is before what was read
    earlier for a minute; and `StoppedBetweenBatches` when `is_stopped` returns true.
    """

    def __init__(self, kafka: Mapping[str, Any], topic: str, group: str, isolation: str) -> None:
        self.topic = topic
        self.is_stopped: Callable[[], bool] = lambda: False
        self._log = LogReader(
            kafka,
            self._check_stopped,
            isolation=isolation,
            group=group,
            role=None,
            receive_timeout_s=_RECEIVE_TIMEOUT_SECONDS,
        )

    def positions(self, ranges: Ranges) -> Positions:
        """The positions of the messages in ranges, in rising order."""
        found: list[int] = []
        self._read(ranges, lambda message: found.append(position_of(message)))
        return np.sort(np.array(found, np.int64))

    def read(self, replays: Replays, deliver: Callable[[Any], object]) -> None:
        """Calls `deliver` with tables of the messages to replay that are still there.

        A table has the columns of Spark's Kafka source, the attempt, and why a message is given up, if it is.
        """
        wanted = dict(zip(replays.positions.tolist(), replays.attempts.tolist(), strict=True))
        rows: list[tuple[Any, ...]] = []
        size = 0

        def deliver_rows() -> None:
            nonlocal size
            columns = zip(*rows, strict=True)
            deliver(pa.table([*map(pa.array, columns, _SCHEMA.types)], schema=_SCHEMA))
            rows.clear()
            size = 0

        def take(message: Message) -> None:
            nonlocal size
            position = position_of(message)
            if position in wanted:
                rows.append((*_columns(message), wanted[position], replays.given_up.get(position)))
                size += len(message.value() or b"")
                if size >= _MOST_BYTES:
                    deliver_rows()

        self._read(ranges_of(replays.positions), take)
        if rows:
            deliver_rows()

    def keys(self, positions: Positions, take: Callable[[int, bytes | None], object]) -> None:
        """Calls `take` with the position and the key of each of some messages that is still there; they rise."""
        wanted = set(positions.tolist())

        def take_key(message: Message) -> None:
            position = position_of(message)
            if position in wanted:
                wanted.remove(position)
                key = message.key()
                take(position, key.encode() if isinstance(key, str) else key)

        for near in rounds(positions):
            self._read(ranges_of(near), take_key)

    def _read(self, ranges: Ranges, take: Callable[[Message], None]) -> None:
        left = {(self.topic, number): each for number, each in ranges.items()}
        deadline = time.monotonic() + _RECEIVE_TIMEOUT_SECONDS
        try:
            self._log.read(self.topic, left, take)
            # After a change of leader, the end of a partition may be before what was read once.
            while left := _unread(left, self._log.ended):
                if time.monotonic() > deadline:
                    ends = ", ".join(f"{place[1]} at {each.start}" for place, each in left.items())
                    raise TopicsRefusedError(
                        f"topic {self.topic} ends before messages that were delivered (partition {ends}): was it made "
                        "anew? Then take a fresh checkpoint and reset the group's offsets"
                    )
                self._log.read(self.topic, left, take)
        except TopicsError as error:
            raise TopicsRefusedError(f"source topic {self.topic} cannot be read: does it exist?") from error
        except BrokerError as error:
            raise TopicsRefusedError(str(error)) from error

    def _check_stopped(self, *_progress: Any) -> None:
        if self.is_stopped():
            raise StoppedBetweenBatches(f"stopped while reading {self.topic}")

    def close(self) -> None:
        self._log.close()


def _unread(ranges: Mapping[Place, range], ended: Mapping[Place, int]) -> dict[Place, range]:
    """The rest of ranges whose partition ended before the range."""
    rests = {place: range(max(each.start, ended.get(place, each.stop)), each.stop) for place, each in ranges.items()}
    return {place: rest for place, rest in rests.items() if rest}


def ranges_of(positions: Positions) -> dict[int, range]:
    """Partition → the range from the first to the last offset, of rising positions."""
    partitions, firsts = np.unique(positions >> OFFSET_BITS, return_index=True)
    lasts = np.append(firsts[1:], len(positions)) - 1
    begins, ends = positions[firsts] % MAX_OFFSET, positions[lasts] % MAX_OFFSET + 1
    return dict(zip(partitions.tolist(), map(range, begins.tolist(), ends.tolist()), strict=True))


def rounds(positions: Positions) -> list[Positions]:
    """Positions that are read together: of each partition, those between two gaps that are too wide to read."""
    if not len(positions):
        return []
    partitions = positions >> OFFSET_BITS
    is_first = np.diff(partitions, prepend=-1) != 0
    behind_gap = np.cumsum(np.diff(positions, prepend=positions[0]) > _WIDEST)
    numbers = behind_gap - np.repeat(behind_gap[is_first], np.diff(np.flatnonzero(is_first), append=len(positions)))
    return [positions[numbers == number] for number in range(int(numbers.max()) + 1)]


def position_of(message: Message) -> int:
    return (message.partition() or 0) << OFFSET_BITS | (message.offset() or 0)


def _columns(message: Message) -> tuple[Any, ...]:
    """The columns of Spark's Kafka source."""
    kind, milliseconds = message.timestamp()
    place = message.topic(), message.partition(), message.offset()
    headers: Any = message.headers() or ()
    pairs = [{"key": key, "value": value} for key, value in headers]
    # Java counts the types of timestamps from -1, librdkafka from 0.
    return message.key(), message.value(), *place, milliseconds, kind - 1, pairs or None
