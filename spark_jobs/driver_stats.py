"""A driver says once a second in `{topology}.stats` what its component has done, in a thread of its own.

A micro-batch may take minutes, and a driver that is silent for ten seconds looks as if it was gone; so this is no
affair of the thread that writes. Whatever goes wrong here, be it that the clients cannot be made, is said in the log,
and is of no matter to the query.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kafka_clients.client_settings import for_admin
from kafka_clients.forgotten_clients import forgettable
from kafka_clients.stats_publisher import LAST_SECONDS, PUBLISH_SECONDS, StatsPublisher, producer_settings
from spark_jobs.inbox_offsets import InboxOffsets

logger = logging.getLogger("spark_jobs.stats")

_LOOK_SECONDS: Final = PUBLISH_SECONDS / 2

Stats = Callable[[], Mapping[str, Any]]


class DriverStats:
    """A thread that publishes until the component has ended.

    Args:
        topology: its name.
        name: of the query, for logs.
        publisher: makes what publishes; called in the thread.
        stats: the counts, as an object for JSON; called in the thread.
        is_running: whether the component is at work; asked again and again.
        inbox: of a bolt; its offsets are committed in the thread as well.
    """

    def __init__(
        self,
        topology: str,
        name: str,
        publisher: Callable[[], StatsPublisher],
        stats: Stats,
        is_running: Callable[[], bool],
        inbox: InboxOffsets | None = None,
    ) -> None:
        self._inbox = inbox
        self.topology = topology
        self._name = name
        self._publisher = publisher
        self.counts = stats
        self._is_running = is_running
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stats of {name}", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def end(self) -> None:
        """Publishes the last record, if the thread has not done so by itself; waits two seconds at most."""
        self._ending.set()
        self._thread.join(2 * LAST_SECONDS)

    def _run(self) -> None:
        inbox = self._inbox
        try:
            publisher = self._publisher()
            while not self._ending.wait(_LOOK_SECONDS) and self._is_running():
                publisher.look(time.monotonic(), self.counts)
                if inbox is not None:
                    inbox.commit()
            publisher.end(time.monotonic(), self.counts())
            if inbox is not None:
                inbox.commit()
        except Exception as error:  # noqa: BLE001 - whatever it is, the query does not need it
            logger.warning("acker top and the dashboard will not show %s: %s", self._name, error)
        finally:
            if inbox is not None:
                inbox.close()


def driver_stats(
    kafka: Mapping[str, Any],
    topology: str,
    component: str,
    stats: Stats,
    is_running: Callable[[], bool],
    inbox: InboxOffsets | None = None,
) -> DriverStats:
    """Publishes what this driver's component does, from its `start` on.

    Args:
        kafka: librdkafka properties.
        topology: its name.
        component: one of its own.
        stats: the counts, as an object for JSON; called in the thread.
        is_running: whether the component is at work.
        inbox: of a bolt.
    """
    began = time.monotonic()

    def publisher() -> StatsPublisher:
        admin = forgettable(AdminClient)({**for_admin(kafka), "log_level": 2})
        return StatsPublisher(topology, "component", component, Producer(producer_settings(kafka)), admin, began)

    return DriverStats(topology, f"{topology}.{component}", publisher, stats, is_running, inbox)
