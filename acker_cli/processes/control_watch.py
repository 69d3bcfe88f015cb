"""Whether a topology is stopped, followed in a thread while a command runs it."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Final, Self

from kafka_clients.catalogue import KafkaSettings
from kafka_clients.control_reader import LOOK_SECONDS, ControlReader

_FIRST_SECONDS: Final = 0.02  # between two looks until the state is known
_KNOWN_SECONDS: Final = 5.0  # how long a start waits until it is known whether the topology is stopped


class ControlWatch:
    """Follows the control record of a topology.

    Args:
        topology: its name.
        component: in whose group's name the record is read.
        kafka: librdkafka properties.
    """

    def __init__(self, topology: str, component: str, kafka: KafkaSettings) -> None:
        self._reader = ControlReader(topology, component, kafka)
        self._topology = topology
        self._changed = threading.Condition()
        self._state: str | None = None
        self._ending = threading.Event()
        self._on_stopped: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._follow, name="control-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def is_stopped(self) -> bool:
        """Whether the requested state is `stopped`."""
        return self._state == "stopped"

    def when_stopped(self, call: Callable[[], object]) -> None:
        """Calls a function, in the thread, when a stop is requested."""
        self._on_stopped = call

    def await_start(self, note: Callable[[str], object], waiting: AbstractContextManager[object]) -> None:
        """Waits as long as the topology is stopped, inside of `waiting`; `note` prints that."""
        with self._changed:
            self._changed.wait_for(lambda: self._state is not None, _KNOWN_SECONDS)
            if not self.is_stopped:
                return
            note(f"{self._topology} is stopped: waiting for acker topologies resume {self._topology}")
            with waiting:
                while self.is_stopped:
                    self._changed.wait(LOOK_SECONDS)  # so that a signal is handled

    def _follow(self) -> None:
        with closing(self._reader):
            while not self._ending.is_set():
                self._reader.look(time.monotonic())
                if self._reader.state != self._state:
                    with self._changed:
                        self._state = self._reader.state
                        self._changed.notify_all()
                    if self.is_stopped:
                        self._on_stopped()
                self._ending.wait(LOOK_SECONDS if self._state is not None else _FIRST_SECONDS)
