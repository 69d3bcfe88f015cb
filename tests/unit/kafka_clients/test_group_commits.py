"""Commits in the background: what has changed since the last one, and what has failed."""

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.client_settings import CLIENT_CLASSES
from kafka_clients.group_consumer import GroupConsumer


class Group:
    """A consumer that keeps what is committed; it refuses a commit at once, or later, in the answer to it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.answer = settings["on_commit"]
        self.commits: list[dict[tuple[str, int], tuple[int, str]]] = []
        self.refuses = False

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))
        self.commits.append({(each.topic, each.partition): (each.offset, each.metadata or "") for each in offsets})
        return offsets


def joined() -> tuple[GroupConsumer, Group]:
    made: list[Group] = []

    def make(settings: dict[str, Any]) -> Group:
        made.append(Group(settings))
        return made[0]

    return GroupConsumer({CLIENT_CLASSES: {Consumer: make}}, "lines"), made[0]


def test_only_what_has_changed_or_has_failed_is_committed() -> None:
    member, group = joined()
    first, second = TopicPartition("lines", 0, 5, "a"), TopicPartition("lines", 1, 7, "a")

    def committed(*offsets: TopicPartition, **again: bool) -> list[dict[tuple[str, int], tuple[int, str]]]:
        group.commits.clear()
        member.commit_changed(offsets, **again)
        return group.commits

    both = {("lines", 0): (5, "a"), ("lines", 1): (7, "a")}
    assert committed(first, second) == [both]
    assert committed(first, second) == []
    assert committed(first, second, again=True) == [both]
    second = TopicPartition("lines", 1, 7, "b")
    assert committed(first, second) == [{("lines", 1): (7, "b")}]
    both["lines", 1] = (7, "b")

    group.answer(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), [first])
    assert committed(first, second) == [both]
    group.refuses = True
    assert committed(TopicPartition("lines", 0, 6, "a"), second) == []
    assert not member.commit_and_wait([first], 0.0)
    group.refuses = False
    assert committed(first, second) == [both]

    assert member.commit_and_wait([TopicPartition("lines", 0, 9, "a")], 0.0)
    assert committed(TopicPartition("lines", 0, 9, "a"), second) == []


def test_two_commits_that_are_refused_at_a_time_leave_room_for_metadata() -> None:
    member, group = joined()
    for text in ("a" * 1_000, "b" * 1_000):
        member.commit_changed([TopicPartition("lines", 0, 5, text)])
    for _ in range(2):
        group.answer(KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE), [])
    assert member.metadata_room == 500
