"""Sets the shares of tasks in the shuffle groupings of a process from the statistics of the receiving bolts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from confluent_kafka import OFFSET_END, KafkaException

from kafka_clients.errors import BrokerError
from kafka_clients.repeated_lines import get_logger
from kafka_clients.topic_tail import SMALL, TopicTail
from spout_sdk.api.topology import Topology
from spout_sdk.kafka.kafka_settings import KafkaSettings
from spout_sdk.statistics.task_shares import TaskShares
from tuple_tree.components import SHUFFLES
from tuple_tree.errors import StatsRecordError
from tuple_tree.names import component_group, stats_topic
from tuple_tree.process_stats import StatsRecord

_SECONDS: Final = 0.5
_WAIT_MS: Final = 500
logger = get_logger("spout_sdk.runtime")


def shuffled_bolts(topology: Topology, component: str) -> dict[str, int]:
    """The bolts that a component emits to by a load-aware shuffle, and their numbers of tasks."""
    return {
        bolt.name: bolt.tasks
        for bolt in topology.manifest.shuffled_to(component)
        if any(
            each.source == component
            and each.grouping in SHUFFLES
            and (component, each.stream, bolt.name) not in topology.even_shuffles
            for each in bolt.subscriptions
        )
    }


class ShareWatch:
    """Reads statistics twice a second, and sets the shares; for the thread of the loop.

    Nothing here waits or raises: without statistics the shares are equal.

    Args:
        component: the component of this process; its chained bolts are included.
        set_shares: called with a bolt, and the shares of its tasks.
    """

    def __init__(
        self,
        topology: Topology,
        component: str,
        kafka: KafkaSettings,
        set_shares: Callable[[str, Sequence[float]], None],
    ) -> None:
        emitting = (component, *(bolt.name for bolt in topology.manifest.chained_to(component)))
        shuffled = {name: tasks for each in emitting for name, tasks in shuffled_bolts(topology, each).items()}
        self._bolts = {name: TaskShares(tasks) for name, tasks in shuffled.items()}
        self._component, self._topic = component, stats_topic(topology.name)
        self._keys = tuple(f"component/{name}/".encode() for name in self._bolts)
        self._tail = TopicTail(
            {**kafka, **SMALL},
            group=component_group(topology.name, component),
            role=component,
            has_ends=False,
            wait_ms=_WAIT_MS,
        )
        if self._bolts:
            self._tail.read_from({(self._topic, 0): OFFSET_END})
        self._set_shares = set_shares
        self._at = 0.0
        self._has_warned = False

    def look(self, now: float) -> None:
        """Reads statistics and sets the shares, if half a second has passed since the last time."""
        if not self._bolts or now < self._at:
            return
        self._at = now + _SECONDS
        for record in self._records():
            try:
                self._bolts[record.name].feed(record, now)
            except (ValueError, TypeError, AttributeError) as error:
                logger.warning("statistics of %s are skipped: %r", record.name, error)
        for bolt, shares in self._bolts.items():
            self._set_shares(bolt, shares.shares(now))

    def close(self) -> None:
        self._tail.close()

    def _records(self) -> Iterator[StatsRecord]:
        try:
            messages = self._tail.poll()
        except (BrokerError, KafkaException) as error:
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "shuffle groupings of %s share evenly, whatever the load of the tasks, because %s is not read: %s",
                    *(self._component, self._topic, error),
                )
            return
        for message in messages:
            if (message.key() or b"").startswith(self._keys):
                with suppress(StatsRecordError):  # `acker top` shows that some are of another version
                    yield StatsRecord.of(message.key(), message.value(), message.timestamp()[1])
