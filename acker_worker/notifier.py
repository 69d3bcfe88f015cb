"""Delivers notices to spouts, and unusable records to the dead letters.

Notices go out as soon as they are decided, and `drain` waits for their acknowledgement, so that a commit after it is
covered. Those for a spout task that may not exist are kept until that is certain.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

from confluent_kafka import KafkaError

from acker_worker.errors import DeliveryError
from acker_worker.fold import Rejected, SpoutOutcomes
from kafka_clients.access import ACKER
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.client_settings import for_reported
from kafka_clients.errors import GONE, BrokerError, BrokerUnreachableError
from kafka_clients.producer import ServedProducer
from kafka_clients.repeated_lines import client_logger, get_logger
from tuple_tree.headers import Headers, dead_letter_headers
from tuple_tree.messages import NoticeBatch, SpoutAddress, encode_notice_batch, notice_headers
from tuple_tree.names import acks_topic, dead_letters_topic, notices_topic

logger = get_logger(__name__)
_AGAIN_SECONDS: Final = 0.5  # between two requests for a spout task that may not exist
_SURE_SECONDS: Final = 5.0
"""For how long brokers have to know no such topic: after a restart one may know less for a moment."""
_MOST_MISSING: Final = 10_000
_LOOK_UP_SECONDS: Final = 2.0
"""How long a broker may take to list the topics, and how long it is not asked after it did not answer."""
OnDelivery = Callable[[KafkaError | None, object], None]


class Notifier:
    def __init__(
        self, topology: str, kafka: KafkaSettings, catalogue: Catalogue, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.notices = 0
        self.undeliverable = 0
        self.dead_letters = 0
        self._acks_topic = acks_topic(topology)
        self._dead_letters_topic = dead_letters_topic(topology)
        self._notices_prefix = notices_topic(topology, "")
        self._catalogue = catalogue
        self._clock = clock
        self._topics: dict[str, int] = {}
        self._missing: dict[SpoutAddress, float] = {}  # since when brokers that answer do not know it
        self._waiting: deque[tuple[SpoutAddress, NoticeBatch]] = deque()
        self._ask_at = -math.inf
        self._failure: DeliveryError | None = None
        self._producer = ServedProducer({**for_reported(kafka), "logger": client_logger("acker_worker")}, self._end)

    def notify(self, partition: int, position: int, outcomes_of: dict[SpoutAddress, SpoutOutcomes]) -> None:
        for spout, outcomes in outcomes_of.items():
            self._waiting.extend((spout, notice) for notice in outcomes.notices(partition, position))
        self._forward()

    def reject(self, partition: int, rejected: Rejected) -> None:
        record = rejected.record
        logger.error(
            "%s[%d] offset %d cannot be used and goes to %s: %s",
            *(self._acks_topic, partition, record.offset, self._dead_letters_topic, rejected.detail),
        )
        self._send_dead_letter(record.value, partition, record.offset, reason=rejected.reason, detail=rejected.detail)

    def drain(self, timeout_s: float) -> bool:
        """Waits until everything sent was acknowledged; False if that takes longer.

        Raises `DeliveryError` if something was refused; then nothing may be committed any more.
        """
        self._forward()
        left = self._producer.flush(timeout_s) + len(self._waiting)
        if self._failure is not None:
            raise self._failure
        return left == 0

    def poll(self) -> None:
        self._forward()
        self._producer.poll()

    def _forward(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, deque()
        for spout, notice in waiting:
            exists = self._exists(spout)
            if exists is None:
                self._waiting.append((spout, notice))
            elif exists:
                delivered = partial(self._on_notice, spout, notice)
                self._send(spout.topic, spout.task, encode_notice_batch(notice), notice_headers(notice), delivered)
            else:
                self._undeliverable(spout, notice)

    def _exists(self, spout: SpoutAddress) -> bool | None:
        """Whether the spout's topic is one of the topology's, and has that task; None if that is not certain."""
        if not spout.topic.startswith(self._notices_prefix):
            return False
        now = self._clock()
        if spout.task >= self._topics.get(spout.topic, 0) and now >= self._ask_at:
            self._ask_at = now + _AGAIN_SECONDS
            try:
                self._topics = self._catalogue.topics(_LOOK_UP_SECONDS)
            except BrokerUnreachableError as error:
                logger.warning("%s: notices for %s wait, %s", self._acks_topic, spout.topic, error)
                self._ask_at = self._clock() + _LOOK_UP_SECONDS
                self._missing.clear()
        if spout.task < self._topics.get(spout.topic, 0):
            self._missing.pop(spout, None)
            return True
        if len(self._missing) >= _MOST_MISSING:
            self._missing.clear()
        return None if now - self._missing.setdefault(spout, now) < _SURE_SECONDS else False

    def _undeliverable(self, spout: SpoutAddress, notice: NoticeBatch) -> None:
        detail = (
            f"{len(notice)} outcomes for {spout.topic} task {spout.task} cannot be delivered: there is no such topic "
            "and partition in this topology. Does the spout run with another topology name or more tasks than declared?"
        )
        logger.error("%s[%d]: %s", self._acks_topic, notice.acks_partition, detail)
        self.undeliverable += len(notice)
        value = encode_notice_batch(notice)
        self._send_dead_letter(
            value, notice.acks_partition, notice.acks_offset - 1, reason="unknown-spout", detail=detail
        )

    def _send_dead_letter(self, value: bytes | None, partition: int, offset: int, *, reason: str, detail: str) -> None:
        self.dead_letters += 1
        headers = dead_letter_headers(self._acks_topic, partition, offset, reason=reason, detail=detail, by="acker")
        self._send(self._dead_letters_topic, 0, value, headers, partial(self._on_dead_letter, value, headers))

    def _send(self, topic: str, partition: int, value: bytes | None, headers: Headers, on_delivery: OnDelivery) -> None:
        self._producer.produce(topic, partition, None, value, list(headers), on_delivery)

    def _on_notice(self, spout: SpoutAddress, notice: NoticeBatch, error: KafkaError | None, _message: object) -> None:
        if error is None:
            self.notices += len(notice)
        elif error.code() in GONE:
            # Other brokers may still know the topic.
            self._topics.pop(spout.topic, None)
            self._waiting.append((spout, notice))
        else:
            self._failure = DeliveryError("a notice", spout.topic, spout.task, error, ACKER)

    def _on_dead_letter(
        self, value: bytes | None, headers: Headers, error: KafkaError | None, _message: object
    ) -> None:
        if error is None:
            return
        if error.code() != KafkaError.MSG_SIZE_TOO_LARGE or value is None:
            self._failure = DeliveryError("a dead letter", self._dead_letters_topic, 0, error, ACKER)
            return
        # With our headers it outgrew the topic's limit. Its position is in the headers, so it can be fetched there.
        self._send(self._dead_letters_topic, 0, None, headers, partial(self._on_dead_letter, None, headers))

    def _end(self, reason: KafkaError) -> NoReturn:
        raise BrokerError(f"notices cannot be sent any more: {reason.str()}; start the worker again")
