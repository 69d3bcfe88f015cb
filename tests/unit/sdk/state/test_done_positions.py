"""The commits of the spouts upstream of a bolt, and the ends of their topics."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.background import Background
from kafka_clients.client_settings import CLIENT_CLASSES
from kafka_clients.librdkafka_bugs import HANG_SECONDS, forgettable
from spout_sdk import KafkaSpout, Topology, TopologyBuilder
from spout_sdk.state.done_positions import LOOK_SECONDS, DonePositions
from spout_sdk.testing.broker import MemoryBroker
from spout_sdk.testing.clients import MemoryClients, MemoryConsumer
from tests.components import Sink
from tuple_tree.commit_metadata import ATTEMPT, Commit
from tuple_tree.done_sets import DoneSet
from tuple_tree.topics import TopicSpec


def _topology() -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("elsewhere", KafkaSpout("other"))
    builder.set_spout("lines", KafkaSpout(["in", "more"]))
    builder.set_bolt("sink", Sink).shuffle_grouping("lines")
    builder.set_bolt("rest", Sink).shuffle_grouping("elsewhere")
    return builder.build()


class Cluster:
    """Topics in memory, and what a bolt reads of its spouts."""

    def __init__(self, topics: Sequence[str] = ("in", "more", "other"), **replaced: Callable[..., Any]) -> None:
        specs = [TopicSpec(topic, 2 if topic == "in" else 1) for topic in topics]
        self.broker = MemoryBroker(specs, lambda: 0)
        settings = MemoryClients(self.broker, [0]).settings
        kinds: dict[str, Any] = {"consumer": forgettable(Consumer), "background": Background}
        classes = {**settings[CLIENT_CLASSES], **{kinds[name]: made for name, made in replaced.items()}}
        self.positions = DonePositions(_topology(), "sink", {**settings, CLIENT_CLASSES: classes})
        self.now = 0.0

    def commit(self, topic: str, partition: int, done: DoneSet, **texts: str) -> None:
        commit = Commit.of(done, texts)
        self.broker.commit("t.lines", [TopicPartition(topic, partition, commit.offset, commit.metadata)])

    def look(self) -> Mapping[int, DoneSet] | None:
        self.now += LOOK_SECONDS
        return self.positions.look(self.now)


_OURS = {ATTEMPT: "4"}
_FIRST = 1 << 12  # the key of partition 0 of `in`
_OF_MORE = _FIRST | 2_048


def test_commits_are_by_partition_key_and_only_what_is_new() -> None:
    cluster = Cluster()
    assert cluster.look() is None, "a group without commits"
    assert cluster.positions.topics == {"lines": {"in": "in", "more": "more"}}
    cluster.commit("in", 0, DoneSet(5, [(7, 9)], failures={5: 2}), **_OURS)
    cluster.commit("more", 0, DoneSet(1), **_OURS)
    cluster.broker.commit("t.elsewhere", [TopicPartition("other", 0, 1, Commit.of(DoneSet(3), _OURS).metadata)])
    assert cluster.look() == {_FIRST: DoneSet(5, [(7, 9)]), _OF_MORE: DoneSet(1)}
    assert cluster.look() is None
    cluster.commit("in", 1, DoneSet(2), **_OURS)
    assert cluster.look() == {_FIRST | 1: DoneSet(2)}
    assert cluster.positions.done == {_FIRST: DoneSet(5, [(7, 9)]), _OF_MORE: DoneSet(1), _FIRST | 1: DoneSet(2)}
    for _ in range(3):
        cluster.broker.append("more", 0, None, b"", None)
    cluster.look()
    assert cluster.positions.offsets == {_FIRST: (5, 0), _FIRST | 1: (2, 0), _OF_MORE: (1, 3)}
    # Another program's commit: with first_poll="earliest" the spout begins before it.
    cluster.broker.commit("t.lines", [TopicPartition("more", 0, 3)])
    assert cluster.look() is None


def test_requests_are_sent_each_second_and_never_waited_for() -> None:
    calls: list[tuple[Future[Any], Callable[[], Any]]] = []

    class Later:
        def __init__(self, _settings: object) -> None: ...

        def begin(self, call: Callable[[], Any], _name: str) -> Future[Any]:
            calls.append((Future(), call))
            return calls[-1][0]

    cluster = Cluster(background=Later)
    cluster.commit("in", 0, DoneSet(5), **_OURS)
    for _ in range(3):
        assert cluster.look() is None
    (future, call), = calls  # fmt: skip
    future.set_result(call())
    assert cluster.positions.look(cluster.now) == {_FIRST: DoneSet(5)}
    assert cluster.positions.look(cluster.now) is None
    assert len(calls) == 2
    assert cluster.positions.look(cluster.now + HANG_SECONDS + LOOK_SECONDS) is None
    assert len(calls) == 3, "the second hangs"


def test_without_a_kafka_spout_upstream_there_is_nothing_to_read() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("lines", KafkaSpout("in"))
    builder.set_bolt("sink", Sink).shuffle_grouping("lines")
    topology = builder.build()
    without = DonePositions(Topology(topology.manifest, topology.factories), "sink", {})
    assert without.look(9.0) is None


def _refusing(code: int) -> Callable[..., Any]:
    consumer, error = Mock(), KafkaError(code)
    consumer.committed.side_effect = consumer.offsets_for_times.side_effect = KafkaException(error)
    consumer.poll.return_value.error.return_value = error
    return lambda _settings: consumer


def test_a_missing_acl_is_logged_once_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(consumer=_refusing(KafkaError.GROUP_AUTHORIZATION_FAILED))
    with caplog.at_level(logging.WARNING):
        assert [cluster.look() for _ in range(3)] == [None] * 3
    (line,) = [each for each in caplog.messages if "group t.lines" in each]
    assert "sink does not know what is done of its spouts' messages, and keeps all identities meanwhile" in line
    assert "no DESCRIBE ACL for this user: allow it with what acker topics acls MODULE:TOPOLOGY --role sink" in line


def test_offsets_stay_while_a_partition_has_no_leader(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    cluster.look()
    before = cluster.positions.offsets
    error = KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH))
    monkeypatch.setattr(MemoryConsumer, "offsets_for_times", Mock(side_effect=error))
    cluster.commit("in", 0, DoneSet(5), **_OURS)
    assert cluster.look() == {_FIRST: DoneSet(5)}
    assert (cluster.positions.offsets, caplog.messages) == (before, [])


def test_a_source_topic_that_does_not_exist_is_logged_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(topics=["in", "other"])
    assert [cluster.look() for _ in range(2)] == [None] * 2
    assert caplog.text.count("topic more does not exist, and a spout upstream reads it: create it") == 1


def test_a_commit_of_another_version_is_logged_and_the_others_are_read(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.broker.commit("t.lines", [TopicPartition("in", 0, 5, "9:attempt=4")])
    cluster.commit("in", 1, DoneSet(2), **_OURS)
    assert cluster.look() == {_FIRST | 1: DoneSet(2)}
    assert "group t.lines: the commit at offset 5 has metadata of version 9" in caplog.text
    cluster.commit("in", 0, DoneSet(6), **_OURS)
    with caplog.at_level(logging.INFO):
        assert cluster.look() == {_FIRST: DoneSet(6)}
    assert "knows again" in caplog.text
