"""The metadata of commits: windows never need more than Kafka takes, and the kit refuses as Kafka does."""

from functools import partial

import pytest

from spout_sdk import (
    KafkaSpout,
    Topology,
    TopologyBuilder,
    TopologyError,
    Tuple,
    WindowSpec,
    declare,
    tumbling,
)
from spout_sdk.testing import SimulatedCluster
from spout_sdk.windows.fold import WindowFold, longest_progress
from tests.unit.sdk.kit_words import Hold
from tests.unit.sdk.test_window_fold import SOURCES, Effects, tuples_of
from tests.unit.sdk.windowed_bolt_rig import Numbers, Total
from tuple_tree.commit_metadata import (
    DONE,
    LARGEST_METADATA,
    READ,
    commit_metadata,
    read_commit_metadata,
    read_metadata,
)
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.manifest import Guarantee

EVENT_TIME = tumbling(seconds=5).with_timestamp_field("n").with_watermark_interval(0.1)


def names(number: int) -> list[str]:
    return [f"sensor-{at:02}-{'x' * 40}" for at in range(number)]


def topology(streams: int, window: WindowSpec = EVENT_TIME, guarantee: Guarantee = "exactly_once") -> Topology:
    builder = TopologyBuilder("streams", guarantee=guarantee, ack_partitions=1)
    for name in names(streams):
        builder.set_spout(name, Numbers)
    bolt = builder.set_bolt("count", partial(Total, window))
    for name in names(streams):
        bolt.shuffle_grouping(name)
    return builder.build()


def metadata(cluster: SimulatedCluster, group: str, topic: str) -> int:
    """The size of the metadata of the last commit."""
    committed = cluster.broker.committed(group, topic, 0)
    assert committed is not None
    return len(committed.metadata or "")


def test_windows_over_more_streams_than_metadata_have_room_for_are_rejected() -> None:
    with pytest.raises(TopologyError) as raised:
        topology(60)
    assert str(raised.value) == (
        "bolt 'count' with tumbling(seconds=5).with_timestamp_field('n') receives 60 streams: with exactly_once the "
        "metadata of its commits may have 5,553 bytes, and Kafka takes 4,096 (OFFSET_METADATA_TOO_LARGE). Merge "
        "streams in a bolt before it, shorten the names of their components and streams, or use at_least_once"
    )
    topology(60, guarantee="at_least_once")
    topology(60, tumbling(count=5))


def test_as_many_streams_as_build_accepts_are_committed() -> None:
    streams = 43
    with pytest.raises(TopologyError):
        topology(streams + 1)
    with SimulatedCluster(topology(streams), sources={name: [] for name in names(streams)}, seed=1) as cluster:
        for at in (-(2**62), 2**62, 2**62 + 5_000, 2**62 + 10_000):
            for name in names(streams):
                cluster.feed(name, (at,), at)
        cluster.advance(1)
        assert LARGEST_METADATA / 2 < metadata(cluster, "streams.count", "streams.tuples.count") <= LARGEST_METADATA


def test_progress_is_never_longer_than_its_bound() -> None:
    for spec in (EVENT_TIME, EVENT_TIME.with_lag(3), tumbling(count=2), tumbling(seconds=1)):
        fold = WindowFold(spec, Effects(), SOURCES, 0)  # type: ignore[arg-type]
        for tuple_ in tuples_of([-(2**63 // 1000), 0, (2**63 - 1) // 1000], streams=2):
            fold.take(tuple_, 10**15)
            fold.tick(10**16)
            assert len(fold.progress) <= len(longest_progress(spec, SOURCES))


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
    windows = '{"last":[7,1],"latest":{"a/b":5}}'
    assert read_commit_metadata(5, read_metadata(7, windows)) == {READ: f"7:{windows}"}
    assert read_commit_metadata(5, commit_metadata({"attempt": "3", "done": "AQ=="})) == {
        "attempt": "3",
        "done": "AQ==",
    }
    for others in (None, "", "by hand", "2:other=3"):
        assert read_commit_metadata(5, others) is None
    with pytest.raises(CommitError, match=r"offset 5 has metadata of version 3, .* reads version 2: run"):
        read_commit_metadata(5, "3:read=7:{}")
