"""The source of a Kafka spout on a real broker: deleted records, markers of transactions, and commits of a group."""

import time
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_clients.group_consumer import GroupConsumer
from spout_sdk.errors import BrokerError, TopicsError
from spout_sdk.kafka.kafka_settings import consumer_settings
from spout_sdk.kafka_spout import Record
from spout_sdk.kafka_spout.kafka_source import ROUND_SECONDS, Fetched, KafkaSource, OffsetOutOfRange
from tests.kafka.sdk_rig import write, write_in_transactions
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.done_sets import DoneSet
from tuple_tree.source_commits import SourceCommit
from tuple_tree.source_partition import SourcePartition


class Topic:
    """A topic of one partition."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.kafka: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers}
        self.at = SourcePartition(f"source-{uuid.uuid4().hex[:8]}", 0)
        self._admin = AdminClient(self.kafka)
        create_topics(self.kafka, [NewTopic(self.at.topic, 1, 1)])

    def fill(self, count: int) -> None:
        write(self.kafka, self.at.topic, map(str, range(count)))

    def delete_before(self, offset: int) -> None:
        self._admin.delete_records([TopicPartition(*self.at, offset)])[TopicPartition(*self.at)].result(60)


@pytest.fixture
def topic(bootstrap_servers: str) -> Topic:
    return Topic(bootstrap_servers)


@pytest.fixture
def source(topic: Topic) -> Iterator[KafkaSource]:
    group = f"group-{topic.at.topic}"
    with (
        closing(GroupConsumer(consumer_settings(topic.kafka, group), "test")) as member,
        closing(KafkaSource(topic.kafka, group, member)) as source,
    ):
        yield source


def read(source: KafkaSource, until: int) -> tuple[list[int], list[OffsetOutOfRange]]:
    """Offsets up to one, and the gaps before them."""
    offsets: list[int] = []
    out_of_range: list[OffsetOutOfRange] = []

    def more() -> bool:
        records, gaps = source.read(100)
        offsets.extend(record.offset() or 0 for record in records)
        out_of_range.extend(gaps)
        return bool(offsets) and offsets[-1] >= until

    eventually(more, f"offset {until}")
    return offsets, out_of_range


def fetch(source: KafkaSource, at: SourcePartition, wanted: list[int]) -> Fetched:
    all_ = Fetched([], [], [])

    def ended() -> bool:
        fetched = source.fetched(time.monotonic())
        if fetched is not None:
            all_.records.extend(fetched.records)
            all_.gone.extend(fetched.gone)
            all_.unread.extend(fetched.unread)
        return fetched is None

    source.fetch({at: wanted}, time.monotonic())
    eventually(ended, f"offsets {wanted}")
    return all_


def offsets(records: list[Record]) -> list[int | None]:
    return [record.offset() for record in records]


def test_reading_skips_deleted_offsets(topic: Topic, source: KafkaSource) -> None:
    topic.fill(100)
    topic.delete_before(60)
    source.start({topic.at: 10})
    assert read(source, 99) == (list(range(60, 100)), [OffsetOutOfRange(topic.at, 10, 60)])
    assert source.bounds(topic.at) == (60, 100)
    assert source.lag(topic.at) == 0


def test_reading_beyond_the_end_is_rejected(topic: Topic, source: KafkaSource) -> None:
    topic.fill(10)
    source.start({topic.at: 500})
    with pytest.raises(TopicsError, match=r"topic .* offset 500 cannot be read .*: if the topic was created again"):
        read(source, 500)


def test_offsets_are_read_by_position_or_reported_as_gone(topic: Topic, source: KafkaSource) -> None:
    topic.fill(100)
    topic.delete_before(60)
    found = fetch(source, topic.at, [10, 59, 60, 77, 99])
    assert offsets(found.records) == [60, 77, 99]
    assert found.gone == [(topic.at, 10), (topic.at, 59)]
    assert found.unread == []

    # Offsets beyond the end are not gone: they are unread when the round is over.
    source.fetch({topic.at: [99, 100, 500]}, 0.0)
    last: list[Record] = []

    def read_last() -> bool:
        fetched = source.fetched(0.0)
        assert fetched is not None
        assert (fetched.gone, fetched.unread) == ([], [])
        last.extend(fetched.records)
        return bool(last)

    eventually(read_last, "offset 99, the last one")
    assert offsets(last) == [99]
    assert source.fetched(ROUND_SECONDS) == Fetched([], [], [(topic.at, 100), (topic.at, 500)])
    assert source.fetched(ROUND_SECONDS) is None


def test_markers_and_aborted_messages_are_harmless(topic: Topic, source: KafkaSource) -> None:
    write_in_transactions(topic.kafka, topic.at.topic, [(str(number), number % 2 == 0) for number in range(6)])
    source.start({topic.at: 0})
    assert read(source, 8)[0] == [0, 4, 8]
    ends: dict[SourcePartition, int] = {}

    def at_the_end() -> bool:
        assert source.read(9) == ([], [])
        ends.update(source.take_ends())
        return ends == {topic.at: 12}

    eventually(at_the_end, "the end, behind the last marker")
    assert source.lag(topic.at) == 0
    found = fetch(source, topic.at, [0, 2, 8])
    assert offsets(found.records) == [0, 8]
    assert found.gone == [(topic.at, 2)], "an aborted message was never read, so it is never requested"


def test_a_paused_partition_continues_at_its_position(topic: Topic, source: KafkaSource) -> None:
    topic.fill(300)
    source.start({topic.at: 0})
    first: list[Record] = []

    def some() -> bool:
        first.extend(source.read(10)[0])
        return len(first) >= 10

    eventually(some, "ten messages")
    source.pause(topic.at)
    assert source.read(10) == ([], [])
    source.resume(topic.at)
    rest, _ = read(source, 299)
    assert [*offsets(first), *rest] == list(range(300))


def test_the_group_keeps_offsets_and_attempts_and_topics_have_an_id(topic: Topic, source: KafkaSource) -> None:
    topic.fill(1)
    assert source.committed([topic.at]) == {}
    commit, empty = (
        SourceCommit(DoneSet(1, [(2, 5)], failures={1: 3}), 8, begin=1, emitted_to=7),
        SourceCommit(DoneSet(0)),
    )
    assert source.commit_now({topic.at: commit.made()})
    assert source.committed([topic.at]) == {topic.at: commit}
    assert source.commit_now({topic.at: empty.made()})
    assert source.committed([topic.at]) == {topic.at: empty}
    # A topic that is created again has another one.
    other = Topic(str(topic.kafka["bootstrap.servers"]))
    assert len({source.topic_id(each.at.topic) for each in (topic, topic, other)}) == 2


def test_an_error_of_a_metadata_request_names_the_topic(source: KafkaSource, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TopicsError, match="topic no-such-topic does not exist"):
        source.partitions("no-such-topic")
    monkeypatch.setattr("spout_sdk.kafka_spout.kafka_source.ANSWER_SECONDS", 0.2)
    kafka = {"bootstrap.servers": "127.0.0.1:1"}
    with (
        closing(GroupConsumer(consumer_settings(kafka, "group"), "test")) as member,
        closing(KafkaSource(kafka, "group", member)) as unreachable,
        pytest.raises(BrokerError, match="source topic any cannot be read"),
    ):
        unreachable.partitions("any")
