"""The source of the dashboard's figures: the ends of topics."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

from inspection.dashboard.recent import KEPT, NOTICE_RECORDS, RecentDeadLetters, RecentFailures, SourceMessages
from inspection.dashboard.source import IDLE_SECONDS, Source
from inspection.doctor_process import EVERY_SECONDS, Findings
from kafka_clients.catalogue import Catalogue
from tests.kafka.sdk_rig import Cluster, Headers, Use, write
from tests.notices import notice_bytes
from tests.waiting import eventually
from tuple_tree.headers import REPLAYED, dead_letter_headers
from tuple_tree.messages import FailReason
from tuple_tree.names import dead_letters_topic, notices_topic, stats_topic, tuples_topic
from tuple_tree.positions import MAX_PARTITIONS, Position, positional_root, topic_key


@pytest.fixture
def cluster(use: Use) -> Iterator[Cluster]:
    cluster = use("words")
    Catalogue(cluster.bootstrap).publish(cluster.manifest)
    yield cluster
    Catalogue(cluster.bootstrap).withdraw(cluster.name)


def test_the_latest_failures_are_found_among_the_notices(cluster: Cluster) -> None:
    """Roots in the format of `acker trace`, also of the upper half of 64 bits; invalid records are skipped."""
    notices = notices_topic(cluster.name, "lines")

    def write_notices(*values: bytes, headers: Headers = ()) -> None:
        write(cluster.bootstrap, notices, values, headers=headers)

    recent = RecentFailures(cluster.bootstrap, cluster.manifest)
    assert recent.read() == []
    write_notices(notice_bytes(range(1, 4), {}))
    write_notices(notice_bytes([], {255: (FailReason.FAILED, "no disk")}), headers=[("failed-by", b"count/1")])
    write_notices(b"no notice", notice_bytes([1], {2**63 + 1: (FailReason.TIMEOUT, "")}))
    last, first = recent.read()
    assert (first["root"], first["reason"], first["message"]) == ("00000000000000ff", "failed", "no disk")
    assert (last["root"], last["reason"], last["message"]) == ("8000000000000001", "timeout", "")
    assert (first["spout"], first["task"], first["by"], last["by"]) == ("lines", 0, "count/1", None)
    assert last["trace"] == f"acker trace 8000000000000001 --topology {cluster.name}"
    assert last["at"] >= first["at"] > 1_000_000_000_000

    # Only the end is read, and nothing twice.
    write_notices(*(notice_bytes([], {root: (FailReason.FAILED, "")}) for root in range(1, KEPT + 6)))
    # They do not hide that a tree has timed out before.
    assert KEPT < NOTICE_RECORDS
    for reader in (recent, RecentFailures(cluster.bootstrap, cluster.manifest)):
        assert [int(failure["root"], 16) for failure in reader.read()] == [*range(KEPT + 5, 5, -1), 2**63 + 1]


def test_dead_letters_have_their_origin_and_whether_they_were_replayed(cluster: Cluster) -> None:
    topic = dead_letters_topic(cluster.name)
    origin = dead_letter_headers("t.tuples.split", 3, 42, reason="truncated", detail="it ends", by="split/3")
    again = dead_letter_headers("t.dead-letters", 0, 7, reason="exception", detail="again", by="split/1")
    cluster.produce(topic, 0, b"abc\x00\xff\xc3\xa9", [("anchors", b"\x01"), *origin])
    cluster.produce(topic, 0, b"x" * 1000, [*origin, *again])
    cluster.produce(topic, 0, b"without a reason", [("dead-letter.offset", b"no number")])
    cluster.produce(topic, 0, None, [*origin])
    recent = RecentDeadLetters(cluster.bootstrap, cluster.manifest)
    fourth, third, second, first = recent.read()
    assert first["at"] > 1_000_000_000_000
    assert {name: each for name, each in first.items() if name != "at"} == {
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
    assert (second["reason"], second["of_offset"], len(second["value"])) == ("exception", 7, 200)
    assert (third["reason"], third["of_offset"], third["value"]) == ("unknown", None, "without a reason")
    assert fourth["value"] is None

    # Notes of replays are no dead letters, and many of them do not hide the letters before.
    producer = Producer(cluster.bootstrap)
    for _ in range(KEPT + 1):
        producer.produce(topic, partition=0, headers=[(REPLAYED, b"0")])
    assert producer.flush(60) == 0
    *others, replayed = RecentDeadLetters(cluster.bootstrap, cluster.manifest).read()
    assert [letter["replayed"] for letter in others] == [None] * 3
    assert replayed["offset"] == 0
    assert replayed["replayed"] >= replayed["at"] > 1_000_000_000_000


def test_a_positional_root_leads_to_its_source_message(cluster: Cluster) -> None:
    """By the numbers of a `KafkaSpout`'s partitions; none for another root, or a deleted topic."""
    topics = [dead_letters_topic(cluster.name), notices_topic(cluster.name, "lines")]
    key, partitions = topic_key(Catalogue(cluster.bootstrap).topic_id(topics[1]) or ""), cluster.manifest.ack_partitions
    root = positional_root(Position(0, MAX_PARTITIONS // 2 + 1, 42, 3), key, partitions)
    messages = SourceMessages(cluster.bootstrap, cluster.manifest)
    assert messages.of("lines", root, topics) == f"{topics[1]}[1] offset 42"
    beyond = positional_root(Position(0, MAX_PARTITIONS // 2 + 7, 42, 3), key, partitions)
    for other, read in ((root, []), (root, topics[:1]), (root, ["gone"]), (beyond, topics), (root ^ 1 << 63, topics)):
        assert messages.of("lines", other, read) is None


def test_the_doctor_runs_again_while_it_is_requested(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspection.doctor_process.WATCH_SECONDS", 0.2)
    now = 0.0
    findings = Findings(cluster.bootstrap, cluster.name, lambda: now)
    cluster.delete_topic(tuples_topic(cluster.name, "count"))
    assert findings.read() == {"at": None, "findings": [], "problem": None}
    eventually(lambda: findings.read()["at"], "what it finds")
    first = findings.read()
    assert ("topics", "count") in {(finding["check"], finding["component"]) for finding in first["findings"]}
    # A running examination ends with the dashboard.
    now += EVERY_SECONDS
    assert findings.read() == first
    findings.close()
    eventually(lambda: findings.read()["problem"], "the end of that examination")
    assert findings.read()["findings"] == first["findings"]


@pytest.mark.exhaustive
def test_a_topology_is_observed_while_it_is_requested(cluster: Cluster) -> None:
    hours = 0.0
    source = Source(cluster.bootstrap, lambda: hours)

    def is_followed() -> bool:
        return any(thread.name == f"dashboard {cluster.name}" for thread in threading.enumerate())

    try:
        # It does not run.
        shown = source.snapshot(cluster.name)
        assert [one["processes"] for one in shown["components"]] == [0, 0, 0]
        assert [finding["check"] for finding in shown["findings"]] == ["groups"]
        assert shown["verdict"].startswith(f"Topology {cluster.name} is not running")
        assert is_followed()
        hours += IDLE_SECONDS + 1
        # It reads the clock only between two turns, which take their real time.
        eventually(lambda: not is_followed(), "the thread ends")
        assert source.snapshot(cluster.name)["at"] > shown["at"]
    finally:
        source.close()
    assert not is_followed()


def test_a_topology_with_statistics_is_listed_first(cluster: Cluster) -> None:
    """Before a topology without that topic, whose name sorts before it."""
    silent = cluster.manifest.model_copy(update={"topology": f"a-{cluster.name}"})
    Catalogue(cluster.bootstrap).publish(silent)
    try:
        cluster.produce(stats_topic(cluster.name), 0, b"statistics", [])
        names = Source(cluster.bootstrap).topologies()
        with closing(Source(cluster.bootstrap)) as source:
            rows = eventually(source.overview, "the overview")
    finally:
        Catalogue(cluster.bootstrap).withdraw(silent.topology)
    assert [name for name in names if name.endswith(cluster.name)] == [cluster.name, silent.topology]
    shown = {row["topology"]: (row["control"], row["processes"]) for row in rows or ()}
    assert shown.items() >= {cluster.name: ("running", 0), silent.topology: ("running", 0)}.items()
