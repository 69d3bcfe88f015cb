"""The records of outcomes of a Spark spout: what they contain, and records that a topic refuses."""

import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, Producer

from kafka_clients.client_settings import CLIENT_CLASSES
from spark_jobs import SparkJobError
from spark_jobs.delivering import SourceRoots
from spark_jobs.message_table import Prefix
from spark_jobs.outcome_writer import OutcomeWriter
from spark_jobs.outcomes import Outcomes
from spark_jobs.source_reader import rounds
from spark_jobs.spout_loop import SpoutLoop
from tests.manifests import bolt, manifest, spout
from tests.unit.spark.outcomes_rig import KEY, ack, deliver, fail
from tests.waiting import eventually
from tuple_tree.components import OutcomesManifest
from tuple_tree.errors import WireError
from tuple_tree.outcome_records import OutcomeRecord, OutcomesOf, outcome_stream
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.positions import MAX_OFFSET, OFFSET_BITS, Position

KEYS: Mapping[int, bytes | None] = {0: b"ORDER-0", 1: b"x" * 2_000, 2: None, MAX_OFFSET: b"ORDER-1"}
"""By position; the message at offset 3 is gone."""


class Reader:
    """A source in memory."""

    topic = "orders"
    is_stopped: Callable[[], bool] = staticmethod(lambda: False)
    is_closed = False

    def keys(self, positions: Any, take: Callable[[int, bytes | None], object]) -> None:
        for position in positions.tolist():
            if position in KEYS:
                take(position, KEYS[position])

    def close(self) -> None:
        self.is_closed = True


class Broker:
    """A producer whose topic refuses a batch that is too large, and records for another reason."""

    def __init__(self, largest: int = 10_000, error: int | None = None, is_silent: bool = False) -> None:
        self.largest, self.error, self.is_silent = largest, error, is_silent
        self.batch: list[Any] = []
        self.delivered: list[tuple[bytes | None, bytes]] = []

    def produce(self, topic: str, value: bytes, key: bytes | None, on_delivery: Any, headers: Any) -> None:
        assert topic == "done"
        assert OutcomesOf("words", "orders", is_alone=False).have(headers)
        assert not OutcomesOf("copy", "orders", is_alone=True).have(headers)
        self.batch.append((key, value, on_delivery))

    def flush(self, _seconds: float = 0.0) -> int:
        if self.is_silent:
            return len(self.batch)
        batch, self.batch = self.batch, []
        is_large = sum(len(key or b"") + len(value) for key, value, _ in batch) > self.largest
        error = KafkaError.MSG_SIZE_TOO_LARGE if is_large else self.error
        for key, value, report in batch:
            if error is not None:
                report(KafkaError(error), None)
            else:
                self.delivered.append((key, value))
        return 0


class Rig:
    """A writer, and messages that have ended: one is acked, one after a failure, and two are dead letters."""

    def __init__(self, broker: Broker, codec: Any = "json") -> None:
        self.outcomes = Outcomes(SourceRoots(3, KEY, 8), 100, 3, 10.0, writes_outcomes=True)
        self.topology = manifest(spout("orders"), bolt("charge", "orders"))
        self.codec = payload_codec(outcome_stream(codec))
        self.broker, self.reader = broker, Reader()
        target = OutcomesManifest(topic="done", codec=codec)
        kafka = {CLIENT_CLASSES: {Producer: lambda _settings: broker}}
        self.writer = OutcomeWriter(self.topology, "orders", target, self.outcomes, self.reader, kafka)  # type: ignore[arg-type]
        deliver(self.outcomes, 0, range(4))
        deliver(self.outcomes, 1, [0])
        fail(self.outcomes, Position(3, 0, 1), message="the bank does not answer", by="charge/0")
        ack(self.outcomes, Position(3, 0, 0), Position(3, 0, 1), Position(3, 1, 0))
        self.outcomes.dead({2: WireError("bad-payload", "half of \ud83d"), 3: WireError("gone", "it is not there")})

    def run(self) -> None:
        """Writes what has ended, and stops."""
        self.writer.finish(10.0)
        self.writer.run()

    def records(self) -> dict[int, tuple[bytes | None, OutcomeRecord]]:
        """By position, each once."""
        found = {}
        for key, value in self.broker.delivered:
            (values,) = decode_tuples(self.codec, value)
            record = OutcomeRecord(*values)
            position = record.partition * MAX_OFFSET + record.offset
            assert position not in found
            found[position] = key, record
        return found


@pytest.mark.parametrize("codec", ["json", "avro"])
def test_each_message_that_has_ended_has_a_record_under_its_key(codec: Any) -> None:
    before = time.time_ns() // 1_000_000
    rig = Rig(Broker(), codec)
    rig.run()
    found = rig.records()
    assert {position: key for position, (key, _) in found.items()} == {**KEYS, 3: None}
    assert rig.outcomes.idle
    assert rig.reader.is_closed
    short = {position: record._replace(first_emit=0, end=0) for position, (_, record) in found.items()}
    paid = OutcomeRecord("orders", 0, 0, "acked", 1, 0, 0)
    assert short[0] == paid
    assert short[MAX_OFFSET] == paid._replace(partition=1, offset=0)
    assert short[1] == paid._replace(offset=1, reason="failed", component="charge", failure="the bank does not answer")
    dead = paid._replace(outcome="dead-letter", component="orders")
    assert short[2] == dead._replace(offset=2, reason="bad-payload", failure="half of \\ud83d")
    assert short[3] == dead._replace(offset=3, reason="gone", failure="it is not there")
    assert all(before <= record.first_emit <= record.end for _, record in found.values())


def test_a_record_that_is_too_large_has_no_key_and_others_of_its_batch_keep_theirs() -> None:
    rig = Rig(Broker(largest=700))
    rig.run()
    assert {position: key for position, (key, _) in rig.records().items()} == {**KEYS, 1: None, 3: None}
    assert rig.outcomes.idle


@pytest.mark.parametrize(
    ("broker", "error"),
    [
        (Broker(error=KafkaError.UNKNOWN_TOPIC_OR_PART), r"cannot be written to topic done .*: create it"),
        (Broker(error=KafkaError.TOPIC_AUTHORIZATION_FAILED), "acker topics acls MODULE:TOPOLOGY --role orders"),
        (Broker(error=KafkaError._MSG_TIMED_OUT), "check the brokers, and start the spout again"),
        (Broker(largest=10), "raise max.message.bytes of the topic"),
    ],
)
def test_an_outcome_that_cannot_be_written_ends_the_writer_and_leaves_its_message(broker: Broker, error: str) -> None:
    rig = Rig(broker)
    with pytest.raises(SparkJobError, match=error):
        rig.run()
    assert rig.outcomes.ended == 5
    assert rig.reader.is_closed


def test_a_stop_does_not_wait_for_a_broker_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(Broker(is_silent=True))
    thread = threading.Thread(target=rig.writer.run)
    thread.start()
    eventually(lambda: len(rig.broker.batch) == 5, "the records to be sent")
    rig.writer.finish(0.0)
    thread.join(10)
    assert not thread.is_alive()
    assert "5 outcomes of orders were not written before the stop" in caplog.text
    assert rig.outcomes.ended == 5


class Offsets:
    """The offsets of the spout, without notices."""

    mark = 0
    committed: Mapping[int, Prefix] = {}

    def poll(self, _seconds: float) -> list[Any]:
        return []

    def commit(self, prefixes: Mapping[int, Prefix], _emitted_to: Any = None) -> bool:
        self.committed = prefixes
        return True

    def close(self) -> None:
        """Nothing is held."""


def test_a_stop_writes_what_has_ended_before_it_commits() -> None:
    rig = Rig(Broker())
    offsets: Any = Offsets()
    batch: Any = SimpleNamespace(manifest=rig.topology, spout=rig.topology.spout("orders"))
    control: Any = SimpleNamespace(look=lambda _now: None, state="running", close=lambda: None)
    spark: Any = None  # nothing fails
    reader: Any = Reader()
    loop = SpoutLoop(spark, batch, offsets, rig.outcomes, reader, control, rig.writer)
    loop.start(None, lambda: None, lambda _written: None)
    loop.stop()
    assert loop.error is None
    assert offsets.committed == {0: Prefix(4, 0), 1: Prefix(1, 0)}
    assert rig.records().keys() == {*KEYS, 3}


def test_keys_are_read_in_rounds_without_wide_gaps() -> None:
    near = [number << OFFSET_BITS | offset for number in (0, 2) for offset in (5, 10_004)]
    far = [40_000, 2 << OFFSET_BITS | 20_005, 2 << OFFSET_BITS | 20_006]
    farther = [2 << OFFSET_BITS | 2**39]
    found = rounds(np.array(sorted([*near, *far, *farther])))
    assert [each.tolist() for each in found] == [near, far, farther]
    assert rounds(np.empty(0, np.int64)) == []
