"""Writes the outcomes of a spout's messages to a topic of the user's, as `KafkaSpout` does.

A record has the key of its message, which is read again from the source: the tasks that deliver messages need not
report keys, and records that an earlier process delivered have outcomes as well. A message is done when its record is
delivered. A process that dies in between leaves it open, and the next one writes another record. See ADR 23.
"""

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from threading import Event
from typing import Any, Final, NamedTuple

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_clients.access import remedy
from kafka_clients.client_settings import for_producer, new_client
from kafka_clients.errors import GONE, REFUSED
from kafka_clients.repeated_lines import get_logger
from spark_jobs.ended import Ended
from spark_jobs.errors import SparkJobError, StoppedBetweenBatches
from spark_jobs.outcomes import Outcomes
from spark_jobs.source_reader import SourceReader
from tuple_tree.components import OutcomesManifest
from tuple_tree.manifest import Manifest
from tuple_tree.outcome_records import OutcomeRecord, failure_text, outcome_headers, outcome_stream
from tuple_tree.payloads import encode_tuples, payload_codec
from tuple_tree.positions import MAX_OFFSET

logger = get_logger("spark_jobs.spout")

_MOST: Final = 50_000
"""Messages of a round, about."""

_GATHER_SECONDS: Final = 0.2
"""How long a round waits until it has that number: each round reads the source from another offset."""

_DELIVERY_SECONDS: Final = 60.0
_ROOM_SECONDS: Final = 0.1
_PRODUCER: Final[dict[str, Any]] = {
    # As other clients choose the partition of a key.
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "linger.ms": 5,
    # The broker rejects what is too large.
    "message.max.bytes": 100_000_000,
    "queue.buffering.max.kbytes": 65_536,
    "message.timeout.ms": 60_000,
}
_FIXED: Final = {"acks": "all", "enable.idempotence": True, "delivery.report.only.error": True, "log_level": 2}

READER_SETTINGS: Final = {"queued.max.messages.kbytes": 4_096}
"""Settings of the consumer that reads keys: it fetches little beyond the end of a short round."""


class _Unsent(NamedTuple):
    key: bytes | None
    value: bytes
    error: KafkaError


class OutcomeWriter:
    """Writes the outcomes of messages that have ended.

    Args:
        manifest: of the topology.
        spout: its name.
        target: where its outcomes go.
        outcomes: which messages have ended.
        reader: of the source, for this writer alone.
        kafka: librdkafka properties.
    """

    def __init__(
        self,
        manifest: Manifest,
        spout: str,
        target: OutcomesManifest,
        outcomes: Outcomes,
        reader: SourceReader,
        kafka: Mapping[str, Any],
    ) -> None:
        self._manifest, self._spout, self._topic = manifest, spout, target.topic
        self._codec = payload_codec(outcome_stream(target.codec))
        self._headers: Any = outcome_headers(manifest.topology, spout)
        self._outcomes, self._reader = outcomes, reader
        self._producer = new_client(Producer, {**_PRODUCER, **for_producer(kafka), **_FIXED})
        self._unsent: list[_Unsent] = []
        self._finishing = Event()
        self._deadline = math.inf
        reader.is_stopped = lambda: time.monotonic() > self._deadline

    def run(self) -> None:
        """Writes outcomes until `finish` is called, and all that have ended by then.

        Raises `SparkJobError` if the topic cannot be written, or the source cannot be read.
        """
        try:
            while True:
                is_last = self._finishing.is_set()
                if ended := self._outcomes.take_ended(_MOST, _GATHER_SECONDS):
                    self._write(ended)
                elif is_last:
                    return
        except StoppedBetweenBatches:
            text = "%d outcomes of %s were not written before the stop: they are written after the next start"
            logger.warning(text, self._outcomes.ended, self._spout)
        finally:
            self._reader.close()
            del self._producer  # it would keep its connections

    def finish(self, seconds: float) -> None:
        """Has `run` end within some seconds; may be called again."""
        if not self._finishing.is_set():
            self._deadline = time.monotonic() + seconds
            self._finishing.set()

    def _write(self, ended: Sequence[Ended]) -> None:
        """Returns when the outcomes of all these messages are delivered."""
        of = {position: (each, at) for each in ended for at, position in enumerate(each.positions.tolist())}

        def write(position: int, key: bytes | None) -> None:
            each, at = of.pop(position)
            self._send(key, encode_tuples(self._codec, [self._record(position, each, at)]))

        positions = np.sort(np.concatenate([each.positions for each in ended]))
        self._reader.keys(positions, write)
        # Retention or compaction has deleted the rest, and the keys with it.
        for position in list(of):
            write(position, None)
        self._flush()
        self._send_unsent()
        self._outcomes.done(positions)

    def _record(self, position: int, of: Ended, at: int) -> OutcomeRecord:
        partition, offset = divmod(position, MAX_OFFSET)
        reason = component = text = ""
        if (why := of.why.get(position)) is not None:
            reason, component, text = why.reason, self._spout, why.detail
            if why.failed is not None:
                component, message = self._manifest.failed_in(*why.failed)
                text = text or message
        return OutcomeRecord(
            self._reader.topic,
            partition,
            offset,
            of.outcome,
            attempts=int(of.attempts[at]),
            first_emit=int(of.first_emit[at]),
            end=of.end,
            reason=reason,
            component=component,
            failure=failure_text(text),
        )

    def _send(self, key: bytes | None, value: bytes) -> None:
        reported = partial(self._reported, key, value)
        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=reported, headers=self._headers)
            except BufferError:  # the queue of the producer is full
                self._check_deadline()
                self._producer.poll(_ROOM_SECONDS)
            except KafkaException as error:
                raise self._error(error.args[0]) from error
            else:
                return

    def _reported(self, key: bytes | None, value: bytes, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self._unsent.append(_Unsent(key, value, error))

    def _flush(self) -> None:
        end = time.monotonic() + _DELIVERY_SECONDS
        try:
            while self._producer.flush(_ROOM_SECONDS):
                self._check_deadline()
                if time.monotonic() > end:
                    raise self._error(f"no answer within {_DELIVERY_SECONDS:g} s")
        except KafkaException as error:
            raise self._error(error.args[0]) from error

    def _send_unsent(self) -> None:
        """Sends each record that was too large, maybe with others, by itself, and if need be without its key."""
        for key, value in self._take_too_large():
            for kept in dict.fromkeys((key, None)):
                self._send(kept, value)
                self._flush()
                if not self._take_too_large():
                    break
            else:
                raise self._error("the record is too large even without the key: raise max.message.bytes of the topic")

    def _take_too_large(self) -> list[tuple[bytes | None, bytes]]:
        """Takes the records that the topic has rejected for their size; their batch may have been too large."""
        unsent, self._unsent = self._unsent, []
        for each in unsent:
            if each.error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise self._error(each.error)
        return [(each.key, each.value) for each in unsent]

    def _check_deadline(self) -> None:
        if time.monotonic() > self._deadline:
            raise StoppedBetweenBatches("stopped while writing outcomes")

    def _error(self, why: KafkaError | str) -> SparkJobError:
        code = None if isinstance(why, str) else why.code()
        fix = "check the brokers"
        if code in REFUSED:
            fix = remedy(self._spout)
        elif code in GONE:
            fix = "create it"
        return SparkJobError(
            f"outcomes of spout {self._spout!r} cannot be written to topic {self._topic} "
            f"({why if isinstance(why, str) else why.str()}): {fix}, and start the spout again; it continues there"
        )
