"""The acker worker on a real broker: bad input, refusals, stopping, lagging, sharing."""

import json
import random
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from acker_worker.catalogue import Catalogue
from acker_worker.errors import AckerWorkerError, BrokerUnreachableError, TopicError, UnknownTopologyError
from acker_worker.notifier import Notifier
from acker_worker.worker import AckerWorker
from tests.kafka.ack_log import AckLog, manifest_of
from tests.waiting import eventually
from tuple_tree.codec import decode_notice_batch, encode_ack_batch
from tuple_tree.messages import AckBatch, SpoutTask
from tuple_tree.names import notices_topic


@pytest.fixture
def log(bootstrap_servers: str) -> Iterator[AckLog]:
    with AckLog(bootstrap_servers, timeout_ms=30_000) as log:
        yield log


def full_batch(entries: int, *, valid: bool) -> bytes:
    roots = np.arange(0, 2 * entries, 2, dtype=np.uint64)
    vals = roots if valid else roots[:-1]
    return encode_ack_batch(AckBatch("big/0", bytes(16), 0, ack_roots=roots, ack_vals=vals))


GARBAGE = {
    "not-avro": b"\x00\x01\x02 garbage",
    "empty": b"",
    "truncated": encode_ack_batch(AckBatch("b/0", bytes(16), 0))[:-3],
    "unknown-schema": b"\xc3\x01" + bytes(8) + b"of another version",
    "uneven-columns": full_batch(56_000, valid=False),
    "misrouted": encode_ack_batch(AckBatch("b/0", bytes(16), 0, reset_roots=np.array([3], dtype=np.uint64))),
}


def set_topic(log: AckLog, key: str, value: str) -> None:
    """Changes a setting of the ack log, and waits until the broker says so."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, log.topic, incremental_configs=[entry])
    admin = AdminClient(log.kafka)
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result()
    eventually(lambda: log.catalogue._configs([log.topic])[log.topic][key] == value, "the setting to be in force")


def test_what_cannot_be_decoded_is_a_dead_letter_and_the_worker_goes_on(log: AckLog) -> None:
    with log.worker() as worker:
        log.say(2, init=9)
        for value in GARBAGE.values():
            log.append(0, value)
        log.say(2, ack=9)
        log.flush()
        assert log.await_notices([2])[2] == ["ack"]
        eventually(lambda: worker.stats.dead_letters == len(GARBAGE), "all dead letters")
    letters = log.dead_letters()
    assert [value for value, _ in letters] == list(GARBAGE.values())
    assert [headers["dead-letter.reason"] for _, headers in letters] == list(GARBAGE)
    for offset, (_, headers) in enumerate(letters, start=1):
        assert headers["dead-letter.topic"] == log.topic
        assert headers["dead-letter.partition"] == "0"
        assert headers["dead-letter.offset"] == str(offset)
        assert headers["dead-letter.by"] == "acker"


def test_a_batch_of_900_kilobytes_is_folded(log: AckLog) -> None:
    value = full_batch(56_000, valid=True)
    assert len(value) > 890_000
    with log.worker() as worker:
        log.append(0, value)
        log.flush()
        eventually(lambda: worker.stats.orphans == 56_000, "an orphan for each ack")
        assert worker.stats.dead_letters == 0


def test_a_record_that_outgrows_the_topic_with_our_headers_leaves_its_place(log: AckLog) -> None:
    """As large as a record may be: the dead letter has no room for it, so it says where it lies."""
    value = random.Random(5).randbytes(1_048_400)
    with log.worker():
        producer = Producer({**log.kafka, "message.max.bytes": 2_000_000})
        producer.produce(log.topic, value, partition=0)
        assert producer.flush(30) == 0
        log.say(2, init=0)
        log.flush()
        log.await_notices([2])
    ((kept, headers),) = log.dead_letters()
    assert kept is None
    assert headers["dead-letter.offset"] == "0"


@pytest.mark.parametrize("spout", ["unknown", "elsewhere", "task"])
def test_a_spout_that_does_not_exist_gets_its_outcome_as_a_dead_letter(log: AckLog, spout: str) -> None:
    lost = {
        "unknown": SpoutTask(notices_topic(log.topology, "nobody"), 0, 1_000),
        "elsewhere": SpoutTask("some-other-topic", 0, 1_000),
        "task": SpoutTask(log.spout.topic, 17, 1_000),
    }[spout]
    with log.worker() as worker:
        log.say(4, init=0, spout=lost)
        log.say(6, init=0)
        log.flush()
        assert log.await_notices([6]) == {6: ["ack"]}
        assert eventually(lambda: worker.stats.undeliverable, "the undeliverable outcome") == 1
    ((value, headers),) = log.dead_letters()
    assert decode_notice_batch(value).acked_roots.tolist() == [4]
    assert headers["dead-letter.reason"] == "unknown-spout"


class TestRefusals:
    def refused(self, log: AckLog, topology: str | None = None) -> str:
        with pytest.raises(AckerWorkerError) as raised:
            AckerWorker(topology or log.topology, log.kafka).run()
        return str(raised.value)

    def test_unknown_topology(self, log: AckLog) -> None:
        with pytest.raises(UnknownTopologyError, match="acker topics create"):
            AckerWorker("no-such-topology", log.kafka).run()
        assert log.topology in self.refused(log, "no-such-topology")

    def test_unreachable_broker(self) -> None:
        with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1 "):
            Catalogue({"bootstrap.servers": "127.0.0.1:1"}, contact_s=2).manifest("t")

    def test_missing_ack_topic(self, log: AckLog) -> None:
        admin = AdminClient(log.kafka)
        admin.delete_topics([log.topic])[log.topic].result()
        eventually(lambda: log.topic not in log.catalogue.topics(), "the topic to be gone")
        assert f"{log.topic} does not exist" in self.refused(log)

    @pytest.mark.parametrize(
        ("key", "value"),
        [("message.timestamp.type", "CreateTime"), ("cleanup.policy", "compact"), ("cleanup.policy", "compact,delete")],
    )
    def test_wrong_setting(self, log: AckLog, key: str, value: str) -> None:
        set_topic(log, key, value)
        assert f"has {key}={value}, but it must be" in self.refused(log)

    @pytest.mark.parametrize(("key", "value"), [("retention.ms", "3000000"), ("retention.bytes", "1000000")])
    def test_short_retention_is_a_warning(
        self, log: AckLog, caplog: pytest.LogCaptureFixture, key: str, value: str
    ) -> None:
        """Trees are replayed for it, so it is not refused; but it is said before the first of them is."""
        set_topic(log, key, value)
        with log.worker() as worker:
            eventually(lambda: worker.stats.partitions, "its partitions")
        said = [record.getMessage() for record in caplog.records if f"{key}={value}" in record.getMessage()]
        assert len(said) == 1
        assert f"topic {log.topic} has {key}={value}, but trees may live for 1500000 ms" in said[0]
        assert f"--add-config {key}={4_500_000 if key == 'retention.ms' else -1}" in said[0]

    def test_other_number_of_partitions(self, log: AckLog) -> None:
        log.catalogue.publish(manifest_of(log.topology, partitions=3))
        said = self.refused(log)
        assert "has 2 partitions, but the manifest says 3" in said

    def test_acking_off(self, log: AckLog) -> None:
        log.catalogue.publish(log.manifest.model_copy(update={"guarantee": "at_most_once"}))
        assert "at_least_once" in self.refused(log)


def test_creating_topics_twice_changes_nothing_and_differences_are_named(log: AckLog) -> None:
    assert log.catalogue.create_topics(log.manifest) == []
    with pytest.raises(TopicError, match="has 2 partitions, but the manifest says 5"):
        log.catalogue.create_topics(manifest_of(log.topology, partitions=5))


def test_manifests_are_listed_and_a_broken_one_does_not_hide_the_others(log: AckLog) -> None:
    producer = Producer(log.kafka)
    producer.produce("acker.topologies", b"{}", key=b"broken", partition=0)
    assert producer.flush(10) == 0
    found = log.catalogue.manifests()
    assert found[log.topology] == log.manifest
    assert "topology" in str(found["broken"])
    producer.produce("acker.topologies", None, key=b"broken", partition=0)
    assert producer.flush(10) == 0
    assert "broken" not in log.catalogue.manifests()


def test_sigterm_commits_and_releases_and_nothing_is_told_twice(bootstrap_servers: str) -> None:
    # The first root of each partition stays open, so that all of both has to be read again.
    left_open = [root for root in range(200) if root % 4 < 2]
    with AckLog(bootstrap_servers, timeout_ms=120_000) as log:
        with log.worker_process(session_timeout_ms=60_000) as process:
            for root in range(200):
                log.say(root, init=root + 1)
                if root % 4 >= 2:
                    log.say(root, ack=root + 1)
            log.flush()
            log.await_notices({*range(200)} - {*left_open})
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        committed = log.committed()
        assert {partition: offset for partition, (offset, _) in committed.items()} == log.end_offsets()
        assert all(json.loads(metadata)["rebuild_from"] == 0 for _, metadata in committed.values())
        with log.worker() as worker:
            eventually(lambda: worker.stats.pending == len(left_open), "the open trees to be there again")
            for root in left_open:
                log.say(root, ack=root + 1)
            log.flush()
            told = log.await_notices(range(200))
        assert told == {root: ["ack"] for root in range(200)}


def test_an_acker_that_lags_does_not_fail_a_tree_whose_ack_lies_unread(bootstrap_servers: str) -> None:
    # What is said at once is said within the time-out, in spite of a pause of the machine.
    with AckLog(bootstrap_servers, timeout_ms=2_000) as log:
        log.say(2, init=5)
        log.say(2, ack=5)
        log.say(4, init=5)
        log.flush()
        log.wait_ticks(12, 0)
        with log.worker():
            assert log.await_notices([2, 4]) == {2: ["ack"], 4: ["timeout"]}


@pytest.mark.exhaustive
@pytest.mark.parametrize("session_timeout_ms", [2_000, 30_000], ids=["loses its partitions", "keeps them"])
def test_a_worker_that_was_stopped_reads_before_it_judges(bootstrap_servers: str, session_timeout_ms: int) -> None:
    """Stopped like a machine that is paused: its own clock has moved on when it wakes, and the ack lies unread."""
    with (
        AckLog(bootstrap_servers, tick_ms=1_000, timeout_ms=8_000) as log,
        log.worker_process(session_timeout_ms) as process,
    ):
        # A tree's time runs from its init, and not from when the worker is at work at last.
        log.say(0, init=0)
        log.flush()
        log.await_notices([0])
        for attempt in range(2):
            root, warm = 100 + 2 * attempt, 1_000 + 2 * attempt
            log.say(root, init=7)
            log.say(warm, init=0)
            log.flush()
            log.await_notices([warm])
            process.send_signal(signal.SIGSTOP)
            log.say(root, ack=7)
            log.flush()
            log.wait_ticks(10, 1)  # in the other partition: this one's log says nothing of the time
            process.send_signal(signal.SIGCONT)
            told = log.await_notices([root])[root]
            # Who has lost the partition and got it back may tell again what its refused commit did not cover.
            assert told == ["ack"] or (session_timeout_ms == 2_000 and set(told) == {"ack"})


def test_workers_share_the_partitions_and_take_over(bootstrap_servers: str) -> None:
    with AckLog(bootstrap_servers, partitions=4, timeout_ms=120_000) as log, log.worker() as first:
        assert eventually(lambda: first.stats.partitions == 4, "all partitions")
        with log.worker() as second:
            eventually(lambda: first.stats.partitions == second.stats.partitions == 2, "half of them each")
            for root in range(100):
                log.say(root, init=root + 1)
            log.flush()
            eventually(lambda: first.stats.pending + second.stats.pending == 100, "all trees to be open")
        eventually(lambda: first.stats.pending == 100, "the other half to be rebuilt")
        for root in range(100):
            log.say(root, ack=root + 1)
        log.flush()
        assert log.await_notices(range(100)) == {root: ["ack"] for root in range(100)}


def test_a_truncated_log_is_said_and_survived(log: AckLog, caplog: pytest.LogCaptureFixture) -> None:
    log.say(2, init=5)
    log.flush()
    with log.worker():
        eventually(lambda: log.committed()[0][0] == 1, "the first commit")
        log.say(4, init=5)
        log.flush()
        eventually(lambda: log.committed()[0][0] == 2, "the second commit")
    admin = AdminClient(log.kafka)
    for deleted in admin.delete_records([TopicPartition(log.topic, 0, 1)]).values():
        deleted.result()
    with log.worker() as worker:
        eventually(lambda: worker.stats.pending == 1, "what is left to be rebuilt")
    assert any("Retention is too short" in record.getMessage() for record in caplog.records)


def test_topics_that_are_visible_only_later_are_created_once(bootstrap_servers: str) -> None:
    topology = f"made-{random.getrandbits(40):x}"
    catalogue = Catalogue({"bootstrap.servers": bootstrap_servers})
    manifest = manifest_of(topology)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(f"{topology}.tuples.b", 1)])[f"{topology}.tuples.b"].result()
    created = catalogue.create_topics(manifest)
    assert f"{topology}.acks" in created
    assert f"{topology}.tuples.b" not in created


def test_long_messages_of_many_fails_do_not_stop_the_worker(log: AckLog) -> None:
    """One record of the ack log may say more than fits into a notice, and all of it may become due at once."""
    roots = range(0, 40, 2)
    with log.worker():
        for root in roots:
            log.say(root, fail="x" * 400_000)
        log.flush()
        for root in roots:
            log.say(root, init=5)
        log.flush()
        assert log.await_notices(roots) == {root: ["failed"] for root in roots}


def test_what_was_folded_and_not_told_is_not_committed(log: AckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one fault here that no broker produces on demand: an exception between folding and telling."""

    def broken(*_: object) -> None:
        raise RuntimeError("between folding and telling")

    with monkeypatch.context() as patched:
        patched.setattr(Notifier, "tell", broken)
        log.say(2, init=5)
        log.say(2, ack=5)
        log.flush()
        with pytest.raises(RuntimeError, match="between folding and telling"):
            AckerWorker(log.topology, log.kafka).run()
    assert log.committed()[0][0] < 0
    with log.worker():
        assert log.await_notices([2]) == {2: ["ack"]}


def test_settings_that_the_guarantees_rest_on_cannot_be_changed(log: AckLog) -> None:
    log.kafka |= {
        "enable.auto.commit": True,
        "auto.commit.interval.ms": 10,
        "enable.partition.eof": False,
        "acks": 0,
        "enable.idempotence": False,
        "partition.assignment.strategy": "range",
    }
    log.say(2, init=5)
    log.flush()
    with log.worker() as worker:
        eventually(lambda: worker.stats.pending == 1, "the tree")
    assert "rebuild_from" in log.committed()[0][1]


def test_an_open_transaction_is_not_the_end_of_the_partition(bootstrap_servers: str) -> None:
    """An ack that lies in an open transaction is appended, but cannot be read yet: its tree must not time out."""
    with AckLog(bootstrap_servers, tick_ms=500, timeout_ms=4_000) as log, log.worker():
        producer = Producer({**log.kafka, "transactional.id": log.topology})
        producer.init_transactions(30)  # takes seconds where it is the broker's first, longer than the tree may wait
        log.say(4, init=0)
        log.flush()
        log.await_notices([4])
        log.say(2, init=5)
        log.flush()
        producer.begin_transaction()
        root = np.array([2], dtype=np.uint64)
        val = np.array([5], dtype=np.uint64)
        batch = AckBatch("transactional/0", bytes(16), 0, ack_roots=root, ack_vals=val)
        producer.produce(log.topic, encode_ack_batch(batch), partition=0)
        assert producer.flush(30) == 0
        log.wait_ticks(10, 1)
        assert 2 not in log.read_notices()
        producer.commit_transaction(30)
        assert log.await_notices([2])[2] == ["ack"]
