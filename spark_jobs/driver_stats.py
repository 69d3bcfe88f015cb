"""What a driver publishes about its component: its counts in `{topology}.stats`, and the offsets of a bolt's group.

A failure here is logged, and does not end the query.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_clients.client_settings import for_admin, for_consumer
from kafka_clients.forgotten_clients import forgettable
from kafka_clients.stats_publisher import LAST_SECONDS, PUBLISH_SECONDS, StatsPublisher, producer_settings
from spark_jobs.spout_offsets import commit

logger = logging.getLogger("spark_jobs.stats")

_LOOK_SECONDS: Final = PUBLISH_SECONDS / 2


class InboxOffsets:
    """Commits where micro-batches ended, so that Kafka's tools show the lag of a bolt; the bolt goes by its checkpoint.

    Args:
        kafka: librdkafka properties.
        group: the bolt's; nothing joins it.
    """

    def __init__(self, kafka: Mapping[str, Any], group: str) -> None:
        self._settings = {"log_level": 2, **for_consumer(kafka), "group.id": group, "enable.auto.commit": False}
        self._group = group
        self._consumer: Consumer | None = None
        self._ends: Mapping[str, Mapping[str, int]] = {}
        self._committed: Mapping[str, Mapping[str, int]] = {}
        self._failed = False

    def reached(self, ends: Mapping[str, Mapping[str, int]]) -> None:
        """Takes where a micro-batch ended: topic → partition → offset."""
        self._ends = ends

    def commit(self) -> None:
        """Commits new offsets; for one thread. Only the first failure is logged."""
        ends = self._ends
        if ends == self._committed:
            return
        try:
            self._consumer = self._consumer or Consumer(self._settings)
            offsets = [
                TopicPartition(topic, int(number), int(offset))
                for topic, partitions in ends.items()
                for number, offset in partitions.items()
            ]
            commit(self._consumer, offsets)
        except KafkaException as error:
            if not self._failed:
                logger.warning(
                    "the lag of %s will not be shown, its offsets cannot be committed: %s", self._group, error
                )
            self._failed = True
        else:
            self._committed, self._failed = ends, False

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class DriverStats:
    """A thread that publishes once a second until the component has ended.

    It is not the thread that writes: a micro-batch may take minutes, and a driver that publishes nothing for ten
    seconds is shown as gone.

    Args:
        kafka: librdkafka properties.
        topology: its name.
        component: one of its own.
        counts: the counts, as an object for JSON; called in the thread.
        is_running: whether the component runs; called in the thread.
        inbox: of a bolt; its offsets are committed in the thread as well.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        topology: str,
        component: str,
        counts: Callable[[], Mapping[str, Any]],
        is_running: Callable[[], bool],
        inbox: InboxOffsets | None = None,
    ) -> None:
        self.topology = topology
        self.counts = counts
        self._kafka = kafka
        self._component = component
        self._began = time.monotonic()
        self._is_running = is_running
        self._inbox = inbox
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stats of {topology}.{component}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Publishes the last record, if the thread has not done so by itself; waits two seconds at most."""
        self._ending.set()
        self._thread.join(2 * LAST_SECONDS)

    def _run(self) -> None:
        commit_inbox = self._inbox.commit if self._inbox else lambda: None
        try:
            # The clients are made here, so that invalid settings do not end the query either.
            producer = Producer(producer_settings(self._kafka))
            admin = forgettable(AdminClient)({**for_admin(self._kafka), "log_level": 2})
            publisher = StatsPublisher(self.topology, "component", self._component, producer, admin, self._began)
            while not self._ending.wait(_LOOK_SECONDS) and self._is_running():
                publisher.look(time.monotonic(), self.counts)
                commit_inbox()
            publisher.end(time.monotonic(), self.counts())
            commit_inbox()
        except Exception as error:  # noqa: BLE001 - whatever it is, the query does not need it
            name = f"{self.topology}.{self._component}"
            logger.warning("acker top and the dashboard will not show %s: %s", name, error)
        finally:
            if self._inbox:
                self._inbox.close()
