"""The acker worker on a real broker: the rules, bad input, refusals, stopping, lagging, sharing."""

import json
import random
import signal
import threading

import numpy as np
import pytest
from confluent_kafka import Message, Producer, TopicPartition

from acker_worker.notifier import Notifier
from acker_worker.worker import AckerWorker
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import AckerError, BrokerUnreachableError, UnknownTopologyError
from kafka_clients.group_consumer import GroupConsumer
from tests.kafka.ack_log import AckLog, Clock, manifest_of
from tests.waiting import eventually
from tuple_tree.messages import AckBatch, SpoutAddress, decode_notice_batch, encode_ack_batch
from tuple_tree.names import notices_topic

MINUTES_SECONDS = 600.0
"""More than any tree's time-out here."""


def big_batch(*, vals: int) -> bytes:
    roots = np.arange(100, 100 + 2 * 56_000, 2, dtype=np.uint64)
    return encode_ack_batch(AckBatch("big/0", bytes(16), 0, ack_roots=roots, ack_vals=roots[:vals]))


GARBAGE = {
    "not-avro": b"\x00\x01\x02 garbage",
    "empty": b"",
    "uneven-columns": big_batch(vals=55_999),
    "misrouted": encode_ack_batch(AckBatch("b/0", bytes(16), 0, reset_roots=np.array([3], dtype=np.uint64))),
}


def test_undecodable_batches_and_undeliverable_outcomes_are_dead_letters(log: AckLog) -> None:
    # As large as a record may be: the dead letter has no room for it, but has its position.
    largest = random.Random(5).randbytes(1_048_400)
    nowhere = [(notices_topic(log.topology, "missing"), 0), ("some-other-topic", 0), (log.spout.topic, 17)]
    with log.worker() as worker:
        log.send(2, init=9)
        for value in GARBAGE.values():
            log.append(0, value)
        log.append(0, big_batch(vals=56_000))
        log.flush()
        producer = Producer({**log.kafka, "message.max.bytes": 2_000_000})
        producer.produce(log.topic, largest, partition=0)
        assert producer.flush(30) == 0
        log.send(2, ack=9)
        assert log.await_notices([2]) == {2: ["ack"]}
        eventually(lambda: worker.stats.dead_letters == len(GARBAGE) + 1, "all dead letters")
        assert worker.stats.orphans == 56_000, "a batch of 900 kB is folded"
        for root, (topic, task) in enumerate(nowhere, start=3):
            log.send(2 * root, init=0, to=SpoutAddress(topic, task, 1_000))
        log.flush()
        eventually(lambda: worker.stats.undeliverable == len(nowhere), "the outcomes without a spout")
    # A dead letter is sent again without its value, so outcomes may precede it.
    dead = log.dead_letters()
    outcomes = [letter for letter in dead if letter[1]["dead-letter.reason"] == "unknown-spout"]
    *letters, (kept, headers) = (letter for letter in dead if letter not in outcomes)
    assert (kept, headers["dead-letter.offset"]) == (None, str(len(GARBAGE) + 2))
    assert [(value, headers["dead-letter.reason"]) for value, headers in letters] == [
        (value, reason) for reason, value in GARBAGE.items()
    ]
    for offset, (_, headers) in enumerate(letters, start=1):
        lay = {"topic": log.topic, "partition": "0", "offset": str(offset), "by": "acker"}
        assert lay.items() <= {name.removeprefix("dead-letter."): value for name, value in headers.items()}.items()
    assert sorted(decode_notice_batch(value).acked_roots.tolist() for value, _ in outcomes) == [[6], [8], [10]]


def test_a_worker_rejects_unusable_topics(log: AckLog) -> None:
    def refused() -> str:
        with pytest.raises(AckerError) as raised:
            AckerWorker(log.topology, log.kafka).run()
        return str(raised.value)

    with pytest.raises(UnknownTopologyError, match="acker topics create") as raised:
        AckerWorker("no-such-topology", log.kafka).run()
    assert log.topology in str(raised.value)
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1 "):
        Catalogue({"bootstrap.servers": "127.0.0.1:1"}, contact_s=0.2).manifest("t")
    settings = {"message.timestamp.type": ("CreateTime", "LogAppendTime"), "cleanup.policy": ("compact", "delete")}
    for key, (wrong, right) in settings.items():
        log.set_config(log.topic, key, wrong)
        assert f"has {key}={wrong}, but it must be" in refused()
        log.set_config(log.topic, key, right)
    log.catalogue.publish(manifest_of(log.topology, partitions=3))
    assert "has 2 partitions, but the manifest has 3" in refused()
    log.catalogue.publish(log.manifest.model_copy(update={"guarantee": "at_most_once"}))
    assert "at_least_once" in refused()
    log.catalogue.publish(log.manifest)
    log.delete_topic(log.topic)
    assert f"{log.topic} does not exist" in refused()


def test_settings_that_the_guarantees_rest_on_cannot_be_changed(log: AckLog, caplog: pytest.LogCaptureFixture) -> None:
    """Short retention is a warning only, because it costs replays and no more."""
    log.set_config(log.topic, "retention.ms", "3000000")
    log.kafka |= {
        "enable.auto.commit": True,
        "auto.commit.interval.ms": 10,
        "enable.partition.eof": False,
        "acks": 0,
        "enable.idempotence": False,
        "partition.assignment.strategy": "range",
    }
    log.send(2, init=5)
    with log.worker() as worker:
        worker.await_pending(1)
    assert "rebuild_from" in log.committed()[0][1]
    (message,) = [each for each in caplog.messages if "retention.ms=3000000" in each]
    assert f"topic {log.topic} has retention.ms=3000000, but trees may live for 6000000 ms" in message
    assert "--add-config retention.ms=18000000" in message


@pytest.mark.smoke
def test_sigterm_commits_and_releases_and_no_notice_is_sent_twice(log: AckLog) -> None:
    # The first root of each partition stays open, so that all of both has to be read again.
    left_open = [root for root in range(200) if root % 4 < 2]
    with log.worker_process(session_timeout_ms=60_000) as process:
        for root in range(200):
            log.send(root, init=root + 1, ack=root + 1 if root % 4 >= 2 else None)
        log.await_notices({*range(200)} - {*left_open})
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    committed = log.committed()
    assert {partition: offset for partition, (offset, _) in committed.items()} == log.end_offsets()
    assert all(json.loads(metadata)["rebuild_from"] == 0 for _, metadata in committed.values())
    with log.worker() as worker:
        worker.await_pending(len(left_open))
        for root in left_open:
            log.send(root, ack=root + 1)
        notified = log.await_notices(range(200))
    assert notified == {root: ["ack"] for root in range(200)}


def test_an_acker_that_lags_does_not_fail_a_tree_whose_ack_is_unread(bootstrap_servers: str) -> None:
    # The two messages of a tree are appended within its time-out, in spite of a pause of the machine.
    with AckLog(bootstrap_servers, tick_ms=100, timeout_ms=1_000) as log:
        log.send(2, init=5)
        log.send(2, ack=5)
        log.send(4, init=5)
        log.flush()
        log.wait_ticks(13, 0)
        with log.worker():
            assert log.await_notices([2, 4]) == {2: ["ack"], 4: ["timeout"]}


def test_the_high_watermark_is_read_before_trees_expire(log: AckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a pause of the machine: the worker's clock has moved on, and the ack is appended and not yet fetched."""
    clock, fetched, held, read = Clock(), threading.Event(), threading.Event(), GroupConsumer.read
    fetched.set()

    def gated(consumer: GroupConsumer, limit: int, seconds: float = 0.0) -> list[Message]:
        if not seconds or fetched.wait(0.01):
            return read(consumer, limit, seconds)
        held.set()
        return []

    monkeypatch.setattr(GroupConsumer, "read", gated)
    with log.worker(clock) as worker:
        log.send(2, init=5)
        log.flush()
        worker.await_pending(1)
        fetched.clear()
        assert held.wait(60)
        log.send(2, ack=5)
        log.send(4, init=5)
        log.flush()
        clock.ahead_s += MINUTES_SECONDS
        worker.await_turns()
        fetched.set()
        assert log.await_notices([2]) == {2: ["ack"]}
        worker.await_pending(1)
        clock.ahead_s += MINUTES_SECONDS
        assert log.await_notices([4]) == {2: ["ack"], 4: ["timeout"]}


@pytest.mark.smoke
def test_an_open_transaction_is_not_the_end_of_the_partition(log: AckLog) -> None:
    """An ack in an open transaction is appended, but cannot be read yet: its tree must not time out."""
    producer, clock = Producer({**log.kafka, "transactional.id": log.topology}), Clock()
    producer.init_transactions(60)
    with log.worker(clock) as worker:
        log.send(2, init=5)
        log.flush()
        worker.await_pending(1)
        producer.begin_transaction()
        ids = np.array([2, 5], dtype=np.uint64)
        batch = AckBatch("transactional/0", bytes(16), 0, ack_roots=ids[:1], ack_vals=ids[1:])
        producer.produce(log.topic, encode_ack_batch(batch), partition=0)
        assert producer.flush(30) == 0
        clock.ahead_s += MINUTES_SECONDS
        worker.await_turns()
        assert not log.read_notices()
        producer.commit_transaction(30)
        assert log.await_notices([2]) == {2: ["ack"]}


@pytest.mark.exhaustive
@pytest.mark.parametrize("session_timeout_ms", [2_000, 30_000], ids=["loses its partitions", "keeps them"])
def test_a_suspended_worker_reads_before_it_expires_trees(bootstrap_servers: str, session_timeout_ms: int) -> None:
    """Suspended like a paused machine: when it resumes, its own clock has advanced, and the ack is unread."""
    with (
        AckLog(bootstrap_servers, tick_ms=1_000, timeout_ms=8_000) as log,
        log.worker_process(session_timeout_ms) as process,
    ):
        # A tree's time runs from its init, and not from when the worker has started.
        log.send(0, init=0)
        log.await_notices([0])
        for attempt in range(2):
            root, warm = 100 + 2 * attempt, 1_000 + 2 * attempt
            log.send(root, init=7)
            log.send(warm, init=0)
            log.await_notices([warm])
            process.send_signal(signal.SIGSTOP)
            log.send(root, ack=7)
            log.flush()
            log.wait_ticks(10, 1)  # in the other partition: this one's log has no record with the time
            process.send_signal(signal.SIGCONT)
            notified = log.await_notices([root])[root]
            # A worker that lost the partition and got it back may repeat what its refused commit did not cover.
            assert notified == ["ack"] or (session_timeout_ms == 2_000 and set(notified) == {"ack"})


@pytest.mark.smoke
def test_workers_share_the_partitions_and_take_over(bootstrap_servers: str) -> None:
    with AckLog(bootstrap_servers, partitions=4) as log, log.worker() as first:
        eventually(lambda: first.stats.partitions == 4, "all partitions")
        with log.worker() as second:
            eventually(lambda: first.stats.partitions == second.stats.partitions == 2, "half of them each")
            for root in range(100):
                log.send(root, init=root + 1)
            log.flush()
            eventually(lambda: first.stats.pending + second.stats.pending == 100, "all trees to be open")
        eventually(lambda: first.stats.pending == 100, "the other half to be rebuilt")
        for root in range(100):
            log.send(root, ack=root + 1)
        assert log.await_notices(range(100)) == {root: ["ack"] for root in range(100)}


def test_a_truncated_log_is_reported_and_read_on(log: AckLog, caplog: pytest.LogCaptureFixture) -> None:
    log.send(2, init=5)
    log.send(4, init=5)
    with log.worker() as worker:
        worker.await_pending(2)
    log.catalogue.admin.delete_records([at := TopicPartition(log.topic, 0, 1)])[at].result()
    with log.worker() as worker:
        worker.await_pending(1)
    assert "Retention is too short" in caplog.text


def test_outcomes_without_a_notice_are_not_committed(log: AckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one fault here that no broker produces on demand: an exception between fold and notices."""

    def broken(*_: object) -> None:
        raise RuntimeError("between fold and notices")

    with monkeypatch.context() as patched:
        patched.setattr(Notifier, "notify", broken)
        log.send(2, init=5)
        log.send(2, ack=5)
        log.flush()
        with pytest.raises(RuntimeError, match="between fold and notices"):
            AckerWorker(log.topology, log.kafka).run()
    assert log.committed()[0][0] < 0
    with log.worker():
        assert log.await_notices([2]) == {2: ["ack"]}


def test_a_worker_that_ends_between_notices_and_commit_changes_no_outcome(
    log: AckLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Notices that no broker has acknowledged hold the commit up until the worker ends; its successor repeats them."""
    with monkeypatch.context() as patched:
        patched.setattr(Notifier, "drain", lambda *_: False)
        patched.setattr("acker_worker.acker_loop.HELD_UP_SECONDS", 0.0)
        with log.worker():
            log.send(2, init=5)
            log.send(2, ack=5)
            log.send(4, init=5)
            log.await_notices([2])
            eventually(lambda: "so nothing is committed" in caplog.text, "a commit to be due")
    assert log.committed()[0][0] < 0
    with log.worker() as worker:
        worker.await_pending(1)
        log.send(4, ack=5)
        assert log.await_notices([4]) == {2: ["ack", "ack"], 4: ["ack"]}
