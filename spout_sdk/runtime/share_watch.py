"""Sets the shares of tasks in the shuffle groupings of a process from the statistics of the receiving bolts."""

from collections.abc import Callable, Sequence
from typing import Final

from kafka_clients.repeated_lines import get_logger
from kafka_clients.stats_reader import StatsReader
from spout_sdk.api.topology import Topology
from spout_sdk.kafka.kafka_settings import KafkaSettings
from spout_sdk.statistics.task_shares import TaskShares
from tuple_tree.components import SHUFFLES

_SECONDS: Final = 0.5
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
        self._reader = StatsReader(topology.name, component, self._bolts, kafka) if self._bolts else None
        self._set_shares = set_shares
        self._at = 0.0

    def look(self, now: float) -> None:
        """Reads statistics and sets the shares, if half a second has passed since the last time."""
        if self._reader is None or now < self._at:
            return
        self._at = now + _SECONDS
        for record in self._reader.read():
            try:
                self._bolts[record.name].feed(record, now)
            except (ValueError, TypeError, AttributeError) as error:
                logger.warning("statistics of %s are skipped: %r", record.name, error)
        for bolt, shares in self._bolts.items():
            self._set_shares(bolt, shares.shares(now))

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
