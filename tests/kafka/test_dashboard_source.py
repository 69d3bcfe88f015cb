"""Where the dashboard's figures come from: topics, read at their ends."""

import threading
from collections.abc import Iterator

import pytest

from acker_worker.catalogue import Catalogue
from acker_worker.errors import AckerWorkerError, BrokerUnreachableError, UnknownTopologyError
from inspection.dashboard.kafka_source import IDLE_S, KafkaSource
from inspection.dashboard.recent import KEPT, NOTICE_RECORDS, RecentDeadLetters, RecentFailures
from tests.kafka.sdk_rig import Cluster, Use
from tests.notices import notice_bytes
from tests.waiting import eventually
from tuple_tree.dead_letters import REPLAYED, dead_letter_headers
from tuple_tree.messages import FailReason
from tuple_tree.names import dead_letters_topic, notices_topic, stats_topic, tuples_topic
from tuple_tree.streams import payload_codec

PATIENCE = 120.0


@pytest.fixture
def cluster(use: Use) -> Cluster:
    cluster = use("words")
    Catalogue(cluster.bootstrap).publish(cluster.manifest)
    return cluster


@pytest.fixture
def source(cluster: Cluster) -> Iterator[KafkaSource]:
    source = KafkaSource(cluster.bootstrap)
    yield source
    source.close()


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look reaches the end, however slow the machine is; what it did not reach would be read by the next."""
    monkeypatch.setattr("inspection.dashboard.recent._READ_S", 60.0)


def spout_of(cluster: Cluster) -> str:
    return cluster.manifest.spouts[0].name


def notice(failed: dict[int, tuple[FailReason, str]], acked: int = 0) -> bytes:
    return notice_bytes(range(1, acked + 1), failed)


def tell(cluster: Cluster, *values: bytes) -> None:
    topic = notices_topic(cluster.manifest.topology, spout_of(cluster))
    for value in values:
        cluster.produce(topic, 0, value, [])


@pytest.mark.usefixtures("unhurried")
def test_failures_are_found_among_the_notices(cluster: Cluster) -> None:
    """The root as `acker trace` takes it, also of the upper half of 64 bits; what is no notice is passed over."""
    recent = RecentFailures(cluster.bootstrap, cluster.manifest)
    assert recent.read() == []
    tell(
        cluster,
        notice({}, acked=3),
        notice({255: (FailReason.FAILED, "no disk")}),
        b"no notice",
        notice({2**63 + 1: (FailReason.TIMEOUT, "")}, acked=1),
    )
    topology = cluster.manifest.topology
    last, first = recent.read()
    assert (first["root"], first["reason"], first["message"]) == ("00000000000000ff", "failed", "no disk")
    assert (last["root"], last["reason"], last["message"]) == ("8000000000000001", "timeout", "")
    assert (first["spout"], first["task"]) == (spout_of(cluster), 0)
    assert last["trace"] == f"acker trace 8000000000000001 --topology {topology}"
    assert last["at"] >= first["at"] > 1_000_000_000_000


@pytest.mark.usefixtures("unhurried")
def test_only_the_end_is_read_and_nothing_twice(cluster: Cluster) -> None:
    tell(cluster, *(notice({root: (FailReason.FAILED, "")}) for root in range(1, KEPT + 6)))
    recent = RecentFailures(cluster.bootstrap, cluster.manifest)
    assert {int(failure["root"], 16) for failure in recent.read()} == set(range(6, KEPT + 6))
    tell(cluster, notice({1000: (FailReason.FAILED, "")}))
    found = [int(failure["root"], 16) for failure in recent.read()]
    assert found.count(1000) == 1
    assert len(found) == KEPT
    assert KEPT < NOTICE_RECORDS


@pytest.mark.usefixtures("unhurried")
def test_dead_letters_with_where_they_lay(cluster: Cluster) -> None:
    topic = dead_letters_topic(cluster.manifest.topology)
    said = dead_letter_headers("t.tuples.split", 3, 42, reason="truncated", detail="it ends", by="split/3")
    again = dead_letter_headers("t.dead-letters", 0, 7, reason="exception", detail="again", by="split/1")
    cluster.produce(topic, 0, b"abc\x00\xff\xc3\xa9", [("anchors", b"\x01"), *said])
    cluster.produce(topic, 0, b"x" * 1000, [*said, *again])
    cluster.produce(topic, 0, b"nobody said why", [("dead-letter.offset", b"no number")])
    third, second, first = RecentDeadLetters(cluster.bootstrap, cluster.manifest).read()
    assert first["at"] > 1_000_000_000_000
    assert {name: value for name, value in first.items() if name != "at"} == {
        "offset": 0,
        "topic": "t.tuples.split",
        "of_partition": 3,
        "of_offset": 42,
        "reason": "truncated",
        "detail": "it ends",
        "by": "split/3",
        "value": "61626300ffc3a9",
        "replayed": None,
    }
    assert (second["reason"], second["of_offset"]) == ("exception", 7)
    assert len(second["value"]) == 200
    assert (third["reason"], third["of_offset"], third["value"]) == ("unknown", None, "nobody said why")


@pytest.mark.usefixtures("unhurried")
def test_dead_letters_that_were_tuples_are_shown_by_their_fields(cluster: Cluster) -> None:
    topology = cluster.manifest.topology
    said = dead_letter_headers(tuples_topic(topology, "count"), 0, 1, reason="exception", detail="no", by="count/0")
    payload = payload_codec(cluster.manifest.stream("split", "default")).encode(("to",))
    cluster.produce(dead_letters_topic(topology), 0, payload, [("source", b"split/default"), *said])
    (only,) = RecentDeadLetters(cluster.bootstrap, cluster.manifest).read()
    assert only["value"] == "word='to'"


@pytest.mark.usefixtures("unhurried")
def test_the_notes_of_replays_are_no_dead_letters(cluster: Cluster) -> None:
    """They say which letters were put back; and many of them do not hide the letters before."""
    topic = dead_letters_topic(cluster.manifest.topology)
    said = dead_letter_headers("t.tuples.split", 3, 42, reason="exception", detail="no disk", by="split/3")
    for value in (b"put back", b"not", None):
        cluster.produce(topic, 0, value, [*said])
    recent = RecentDeadLetters(cluster.bootstrap, cluster.manifest)
    assert [letter["replayed"] for letter in recent.read()] == [None, None, None]
    for _ in range(KEPT + 1):
        cluster.produce(topic, 0, None, [(REPLAYED, b"0")])
    for read in (recent, RecentDeadLetters(cluster.bootstrap, cluster.manifest)):
        without, not_, put_back = read.read()
        assert (put_back["offset"], put_back["value"]) == (0, "put back")
        assert put_back["replayed"] >= put_back["at"] > 1_000_000_000_000
        assert not_["replayed"] is None
        assert (without["offset"], without["value"], without["replayed"]) == (2, None, None)


def test_what_is_in_the_topic_can_be_deleted(cluster: Cluster) -> None:
    """One of the same name begins at offset 0 again."""
    topic = dead_letters_topic(cluster.manifest.topology)
    recent = RecentDeadLetters(cluster.bootstrap, cluster.manifest)
    for _ in range(3):
        cluster.produce(topic, 0, b"old", [])
    eventually(lambda: len(recent.read()) == 3, "the old ones", PATIENCE)
    cluster.delete_topic(topic)
    eventually(lambda: topic not in Catalogue(cluster.bootstrap).topics(), "the topic is gone", PATIENCE)
    cluster.create_topics()
    eventually(lambda: topic in Catalogue(cluster.bootstrap).topics(), "the topic is there", PATIENCE)
    cluster.produce(topic, 0, b"new", [])

    def values() -> list[str]:
        try:
            return [letter["value"] for letter in recent.read()]
        except BrokerUnreachableError:  # while metadata of the old topic is still about
            return []

    eventually(lambda: "new" in values(), "the new record", PATIENCE)


def test_a_topology_that_stands_still(cluster: Cluster, source: KafkaSource) -> None:
    name = cluster.manifest.topology
    assert name in source.topologies()
    shown = source.snapshot(name)
    assert [one["name"] for one in shown["components"]] == [one.name for one in cluster.manifest.components]
    assert all(one["processes"] == 0 for one in shown["components"])
    assert shown["workers"] == []
    assert shown["dead_letters"] == 0
    assert source.history(name) == {"topology": name, "points": []}
    assert source.failures(name) == []
    assert source.dead_letters(name) == []
    eventually(lambda: source.snapshot(name)["at"] > shown["at"], "a newer snapshot", PATIENCE)


def test_a_topology_that_is_not_there(source: KafkaSource) -> None:
    before = threading.active_count()
    with pytest.raises(UnknownTopologyError, match="nowhere"):
        source.snapshot("nowhere")
    assert threading.active_count() <= before


def test_a_topology_without_its_topic(cluster: Cluster, source: KafkaSource) -> None:
    """It was created before there was one: it is said what to do, and once it is done it goes on."""
    name = cluster.manifest.topology
    cluster.delete_topic(stats_topic(name))
    eventually(lambda: stats_topic(name) not in Catalogue(cluster.bootstrap).topics(), "the topic is gone", PATIENCE)

    def problem() -> str:
        try:
            source.snapshot(name)
        except AckerWorkerError as error:
            return str(error)
        return ""

    assert "acker topics create" in problem()
    cluster.create_topics()
    eventually(lambda: not problem(), "a snapshot", PATIENCE)


def test_nobody_is_followed_for_whom_nobody_asks(cluster: Cluster) -> None:
    hours = 0.0
    source = KafkaSource(cluster.bootstrap, lambda: hours)
    name = cluster.manifest.topology

    def follows() -> bool:
        return any(thread.name == f"dashboard {name}" for thread in threading.enumerate())

    try:
        first = source.snapshot(name)["at"]
        assert follows()
        hours += IDLE_S + 1
        # It looks at the clock only between two turns, whose length is the real one.
        eventually(lambda: not follows(), "the thread ends", PATIENCE)
        assert source.snapshot(name)["at"] > first
        assert follows()
    finally:
        source.close()
    assert not follows()
