"""The metadata of commits: the kit refuses as Kafka does."""

import pytest

from spout_sdk import KafkaSpout, TopologyBuilder, Tuple, declare
from spout_sdk.testing import SimulatedCluster
from tests.unit.sdk.kit_words import Hold
from tuple_tree.commit_metadata import DONE, commit_metadata, read_commit_metadata
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.manifest import Guarantee


def metadata(cluster: SimulatedCluster, group: str, topic: str) -> int:
    """The size of the metadata of the last commit."""
    committed = cluster.broker.committed(group, topic, 0)
    assert committed is not None
    return len(committed.metadata or "")


class HoldSome(Hold):
    """Acks other inputs than `hold` at once."""

    def execute(self, tuple_: Tuple) -> None:
        if tuple_.values[0] == "hold":
            super().execute(tuple_)
        else:
            self.collector.ack(tuple_)


def with_holes(messages: int, guarantee: Guarantee) -> SimulatedCluster:
    """Every second message is held; the broker takes 70 bytes of metadata."""
    stream = declare({"value": str}, codec="avro")
    builder = TopologyBuilder("small", guarantee=guarantee, ack_partitions=1)
    builder.set_spout("lines", KafkaSpout("text", streams=[stream]))
    builder.set_bolt("hold", HoldSome).shuffle_grouping("lines")
    cluster = SimulatedCluster(builder.build(), seed=1)
    cluster.broker.largest_metadata = 70
    for number in range(messages):
        cluster.produce("text", "done" if number % 2 else "hold")
    return cluster


def test_a_broker_that_takes_less_metadata_gets_less(caplog: pytest.LogCaptureFixture) -> None:
    with with_holes(150, "at_least_once") as cluster:
        cluster.advance(3)
        for group, topic in (("small.lines", "text"), ("small.hold", "small.tuples.hold")):
            committed = cluster.broker.committed(group, topic, 0)
            assert committed is not None
            texts = read_commit_metadata(committed.offset, committed.metadata) or {}
            done = DoneSet.read(committed.offset, texts[DONE])
            assert 20 < metadata(cluster, group, topic) <= 70, group
            assert 5 < done.size < 74, group
        refused = [line for line in caplog.messages if "OFFSET_METADATA_TOO_LARGE" in line]
        assert len(refused) == 2, "one line of each process"
        assert all("set offset.metadata.max.bytes of the brokers to 4096" in line for line in refused)
        # A new process, which is refused as it ends, commits at once what the broker takes.
        cluster.restart("hold")
        cluster.run_until_idle()
        cluster.restart("hold")
        assert cluster.broker.committed("small.hold", "small.tuples.hold", 0) is not committed
        assert 20 < metadata(cluster, "small.hold", "small.tuples.hold") <= 70


def test_a_transaction_with_too_much_metadata_is_aborted_and_waits_until_the_set_fits() -> None:
    with with_holes(80, "exactly_once") as cluster:
        cluster.advance(3)
        assert cluster.stats("hold").rollbacks == 1
        bolt = cluster.bolt("hold")
        bolt.ack(bolt.held[20:])
        cluster.advance(2)
        assert cluster.stats("hold").rollbacks == 1
        assert 20 < metadata(cluster, "small.hold", "small.tuples.hold") <= 70


def test_foreign_metadata_is_skipped_and_that_of_other_versions_is_rejected() -> None:
    # Version 0.2 wrote this for windows that held tuples.
    assert read_commit_metadata(5, '2:read=7:{"last":[7,1]}') == {"read": '7:{"last":[7,1]}'}
    assert read_commit_metadata(5, commit_metadata({"attempt": "3", "done": "AQ=="})) == {
        "attempt": "3",
        "done": "AQ==",
    }
    for others in (None, "", "by hand", "2:other=3"):
        assert read_commit_metadata(5, others) is None
    with pytest.raises(CommitError, match=r"offset 5 has metadata of version 3, .* reads version 2: run"):
        read_commit_metadata(5, "3:read=7:{}")
