"""The source partitions of a task: which it owns, where it begins, and warnings of messages that are gone."""

from collections.abc import Callable, Container, Mapping
from typing import Any

from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.errors import TopicsError
from spout_sdk.kafka_spout.kafka_source import OffsetOutOfRange
from spout_sdk.kafka_spout.translation import FirstPoll
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.positions import MAX_PARTITIONS, topic_key
from tuple_tree.source_commits import SourceCommit
from tuple_tree.source_partition import OwnedPartition, SourcePartition

logger = get_logger("spout_sdk.kafka_spout")


def owned_numbers(counts: Mapping[str, int], task: int, tasks: int) -> dict[SourcePartition, int]:
    """The partitions of a task, with their numbers in positional roots; topics have equal shares, and can grow.

    The partitions of a topic are assigned to the tasks in turn; the next topic begins one task later. So no partition
    moves if a topic grows. `counts` has the partitions of each topic, in the order in which the spout names them.
    """
    share = MAX_PARTITIONS // len(counts)
    owned = {}
    for index, (topic, count) in enumerate(counts.items()):
        if count > share:
            raise TopicsError(
                topic,
                f"has partition {share}, and positional roots have room for {share} of each of "
                f"{len(counts)} topics: read fewer topics with a spout, or copy the topic to one with fewer partitions",
            )
        for partition in range(count):
            if (index + partition) % tasks == task:
                owned[SourcePartition(topic, partition)] = index * share + partition
    return owned


def new_partitions(
    source: Any,
    spout: Any,
    task: SpoutTask,
    first_poll: FirstPoll,
    known: Container[int],
    deleted: Callable[[OffsetOutOfRange], object],
) -> list[OwnedPartition]:
    """The partitions that a task owns and does not read yet, each with where it begins.

    Args:
        source: reads the topics, as a `KafkaSource` does.
        known: numbers of partitions that it reads already.
        deleted: called for a partition whose committed offset is no longer there.
    """
    context = task.context
    counts = {topic: source.partitions(topic) for topic in spout.topics}
    mine = owned_numbers(counts, context.task, context.tasks)
    numbers = {at: number for at, number in mine.items() if number not in known}
    if not numbers:
        return []
    of_spout = [each.name for each in context.manifest.spouts].index(context.component)
    committed = source.committed(list(numbers))
    keys = {topic: topic_key(source.topic_id(topic)) for topic in {at.topic for at in numbers}}
    added = []
    for at, number in numbers.items():
        found, bounds = committed.get(at), source.bounds(at)
        start, lost = _start(at, first_poll, found, bounds)
        if lost and found is not None:
            deleted(OffsetOutOfRange(at, found.offset, start))
        partition = OwnedPartition(
            *(at, number, of_spout, keys[at.topic], start, bounds[1], found),
            is_replayed=context.manifest.acking,
            is_transactional=task.environment.is_transactional,
        )
        added.append(partition)
    return added


def _start(
    at: SourcePartition, strategy: str, committed: SourceCommit | None, bounds: tuple[int, int]
) -> tuple[int, int]:
    """The offset to begin at, and how many messages, at most, were deleted between the committed offset and it."""
    first, end = bounds
    ours = committed is not None and committed.next_attempt is not None
    if committed is None or not (ours or strategy.startswith("uncommitted")):
        return (first if strategy.endswith("earliest") else end), 0
    if committed.done.known_to > end:
        raise TopicsError(
            str(at),
            f"ends at offset {end}, before offset {committed.done.known_to}, which its group has committed: if the "
            "topic was created again, reset the group's offsets",
        )
    return max(committed.offset, first), max(0, first - committed.offset)


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
