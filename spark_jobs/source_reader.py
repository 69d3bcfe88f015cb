"""Reads messages of a spout's source by position, on the driver and without a Spark job.

After a restart, for what may have been delivered; and for messages whose trees failed, which are delivered again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from kafka_clients.log_reader import LogReader
from spark_jobs.delivering import ATTEMPT, GIVEN_UP, Positions
from spark_jobs.outcomes import Replays
from tuple_tree.positions import MAX_OFFSET, OFFSET_BITS

_SILENCE_SECONDS: Final = 60.0
_MOST_BYTES: Final = 32 * 2**20
"""Bytes of values that are held at once, about."""

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
    """Reads ranges of a topic, in the name of a group; for one thread at a time."""

    def __init__(self, kafka: Mapping[str, Any], topic: str, group: str, isolation: str) -> None:
        self.topic = topic
        self._log = LogReader(kafka, isolation=isolation, group=group, role=None, silence_s=_SILENCE_SECONDS)

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

    def _read(self, ranges: Ranges, take: Callable[[Message], None]) -> None:
        self._log.read(self.topic, {(self.topic, number): each for number, each in ranges.items()}, take)

    def close(self) -> None:
        self._log.close()


def ranges_of(positions: Positions) -> dict[int, range]:
    """From the first to the last of some positions in each partition; they rise."""
    partitions, firsts = np.unique(positions >> OFFSET_BITS, return_index=True)
    lasts = np.append(firsts[1:], len(positions)) - 1
    begins, ends = positions[firsts] % MAX_OFFSET, positions[lasts] % MAX_OFFSET + 1
    return dict(zip(partitions.tolist(), map(range, begins.tolist(), ends.tolist()), strict=True))


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
