"""The thread of a client that reads answers and outcomes, from the end that their topic has when the client starts."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Message

from kafka_clients.access import CLIENT
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import BrokerError, TopicsError
from kafka_clients.repeated_lines import get_logger
from kafka_clients.topic_tail import TopicTail
from spout_sdk.client.calls import Answered, Ended
from spout_sdk.client.records import RecordReader, created_again
from spout_sdk.client.target import Target
from tuple_tree.positions import topic_key

logger = get_logger("spout_sdk.client")

_POLL_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 10.0

Batch = Sequence[Answered | Ended]


class Reading:
    """Reads in a thread, from `start` to `close`, without a consumer group.

    Args:
        take: called in the thread with each batch, and with a function to call when the next batch may come.
        failed: called in the thread with the error that ends it.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        target: Target,
        take: Callable[[Batch, Callable[[], None]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._target, self._take, self._failed = target, take, failed
        self._tail = TopicTail(kafka, may_exit=False, role=CLIENT, has_ends=False)
        self._records = RecordReader(target)
        self._catalogue = Catalogue(kafka)
        self._may_take = threading.Event()
        self._may_take.set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="client reading", daemon=True)
        self._look_at = 0.0

    def start(self) -> None:
        """Finds the end of the topic, so that the outcome of no message that is sent later is missed.

        Raises:
            BrokerError: if the brokers do not answer, or the topic may not be read or does not exist.
        """
        topic = self._target.reads
        partitions = self._catalogue.topics().get(topic)
        if partitions is None:
            raise TopicsError(
                topic, "does not exist, and the client reads outcomes from it: create it", is_missing=True
            )
        try:
            found = self._tail.reader.offset_ranges([(topic, partition) for partition in range(partitions)])
            self._tail.read_from({place: offsets.stop for place, offsets in found.items()})
        except BaseException:
            self._tail.close()
            raise
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; called once, after `start`."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except Exception as error:  # noqa: BLE001 - raised in the calls that wait
            self._failed(error)
        finally:
            self._tail.close()

    def _turn(self) -> None:
        if messages := self._tail.poll(_POLL_SECONDS):
            self._pass_on(messages)
        if not self._target.has_answers and time.monotonic() >= self._look_at:
            self._look_at_topics()

    def _pass_on(self, messages: Sequence[Message]) -> None:
        batch = self._records.decode(messages)
        if not batch:
            return
        # One batch at a time: a slow event loop, and calls whose reports are missing, stop reading.
        while not self._may_take.wait(_POLL_SECONDS):
            if self._stopping.is_set():
                return
        self._may_take.clear()
        self._take(batch, self._may_take.set)

    def _look_at_topics(self) -> None:
        """Reads partitions that were added to a topic of outcomes from their beginning.

        Raises:
            TopicsError: if the source topic was created again: offsets in outcomes may be those of earlier messages.
        """
        self._look_at = time.monotonic() + _LOOK_SECONDS
        topic, source = self._target.reads, self._target.topic
        try:
            count, source_id = self._catalogue.topics().get(topic, 0), self._catalogue.topic_id(source)
        except BrokerError as error:
            logger.warning("the client does not know whether topic %s has grown: %s", topic, error)
            return
        if source_id is None or topic_key(source_id) != self._target.topic_key:
            raise created_again(source)
        known = self._tail.positions
        if added := [(topic, number) for number in range(count) if (topic, number) not in known]:
            self._tail.read_from({**known, **dict.fromkeys(added, 0)})
