"""Where the partitions of a task begin, and warnings of messages that are gone."""

from collections.abc import Callable, Container, Sequence
from typing import Any

from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.api.context import TaskContext
from spout_sdk.kafka_spout.partitions import (
    OffsetOutOfRange,
    OwnedPartition,
    SourcePartition,
    owned_numbers,
    start_offset,
)
from spout_sdk.kafka_spout.spout import FirstPoll
from tuple_tree.positions import topic_key

logger = get_logger("spout_sdk.kafka_spout")


def new_partitions(
    source: Any,
    topics: Sequence[str],
    context: TaskContext,
    first_poll: FirstPoll,
    known: Container[int],
    deleted: Callable[[OffsetOutOfRange], object],
    *,
    is_replayed: bool,
    is_transactional: bool,
) -> dict[SourcePartition, OwnedPartition]:
    """The partitions that a task owns and does not read yet, each with where it begins.

    Args:
        source: reads the topics, as a `KafkaSource` does.
        known: numbers of partitions that it reads already.
        deleted: called for a partition whose committed offset is no longer there.
    """
    counts = {topic: source.partitions(topic) for topic in topics}
    mine = owned_numbers(counts, context.task, context.tasks)
    numbers = {at: number for at, number in mine.items() if number not in known}
    if not numbers:
        return {}
    spout = [each.name for each in context.manifest.spouts].index(context.component)
    committed = source.committed(list(numbers))
    keys = {topic: topic_key(source.topic_id(topic)) for topic in {at.topic for at in numbers}}
    added: dict[SourcePartition, OwnedPartition] = {}
    for at, number in numbers.items():
        found, bounds = committed.get(at), source.bounds(at)
        start, lost = start_offset(at, first_poll, found, bounds)
        if lost and found is not None:
            deleted(OffsetOutOfRange(at, found.offset, start))
        place = (at, number, spout, keys[at.topic], start, bounds[1], found)
        added[at] = OwnedPartition(*place, is_replayed=is_replayed, is_transactional=is_transactional)
    return added


def warn_of_deleted(by: str, gap: OffsetOutOfRange) -> int:
    """Logs that messages were deleted before they were read; returns how many, at most."""
    deleted = gap.first - gap.expected
    text = (
        "%s: up to %d messages of %s, from offset %d on, were deleted before they were read; it continues at "
        "offset %d. Keep the topic for longer"
    )
    logger.warning(text, by, deleted, gap.at, gap.expected, gap.first, extra=EACH)
    return deleted


def warn_of_lost(by: str, at: SourcePartition, start: int, end: int) -> None:
    """Logs that messages are lost with `at_most_once`."""
    text = (
        "%s: up to %d messages of %s, from offset %d on, are lost: their offsets were committed before they were "
        "emitted, and were not set back"
    )
    logger.warning(text, by, end - start, at, start, extra=EACH)
