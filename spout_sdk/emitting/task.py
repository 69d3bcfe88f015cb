"""What the tasks of bolts and spouts share."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from spout_sdk.api.context import TaskContext
from spout_sdk.emitting.ack_buffer import AckBuffer
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.emitting.environment import TaskEnvironment, TaskScope
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import BrokerError, ComponentError, DeliveryError
from spout_sdk.records import Sink
from spout_sdk.topologies.topology import Topology
from tuple_tree.ids import random_ids
from tuple_tree.messages import SESSION_BYTES, SpoutAddress
from tuple_tree.names import acks_topic

LINGER_SECONDS: Final = 0.005  # how long a tuple or an entry is buffered, at most
# For sessions: a broker that fails is replaced within this time, and it is less than a process has to stop.
OPEN_SECONDS: Final = 15.0


class Task:
    """Base of `BoltTask` and `SpoutTask`: scope, ack buffer and hooks of one task."""

    _logger: ClassVar[logging.Logger]
    collector: Emitter

    def __init__(
        self,
        topology: Topology,
        component: str,
        task: int,
        environment: TaskEnvironment,
        inputs: InputOffsets,
        spout: SpoutAddress | None = None,
    ) -> None:
        manifest = topology.manifest
        self._component = component
        self._task = task
        self._counters = environment.counters
        self._clock = environment.clock
        self._context = TaskContext(manifest, component, task, self._counters, self._clock, environment.kafka)
        self._hooks = self._context.hooks
        self._hook_factories = topology.hooks
        writer, session = f"{component}/{task}", environment.entropy(SESSION_BYTES)
        acks = (acks_topic(manifest.topology), manifest.ack_partitions)
        self._acks = AckBuffer(*acks, writer, session, environment.sink, inputs, spout)
        self._since: float | None = None  # when something was found buffered, since the last flush
        next_id = random_ids(environment.entropy).__next__
        self._scope = TaskScope(topology, self._context, environment, self._acks, next_id)

    def open_session(self) -> None:
        """Opens a session as this task's writer; it must be delivered before anything else is sent."""
        if self._context.manifest.acking:
            self._acks.open()

    @property
    def failure(self) -> DeliveryError | None:
        """Why the task cannot continue; None as long as it can."""
        return self.collector.dead_letters.failure or self._acks.failure

    def tick(self, now: float) -> None:
        """Sends what has lingered; raises `DeliveryError` if an ack batch or a dead letter was not delivered."""
        if (failure := self.failure) is not None:
            raise failure
        if self.collector.packer.is_empty and self._acks.is_empty:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= LINGER_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Sends all that is buffered, tuples before the acks of their inputs."""
        self._since = None
        self.collector.packer.flush()
        self._acks.flush()

    def _make(self, topology: Topology) -> Any:
        """The user's instance."""
        try:
            return topology.factory(self._component)()
        except Exception as error:
            raise self._broken("__init__", error) from error

    def _add_hooks(self) -> None:
        for make in self._hook_factories:
            self._call("prepare", lambda: self._context.add_hook(make()))  # noqa: B023 - called at once

    def _call(self, method: str, function: Callable[..., object], *arguments: Any) -> None:
        """Calls a method of the user's component; raises `ComponentError` if it raises."""
        try:
            function(*arguments)
        except BrokerError:
            raise
        except Exception as error:
            raise self._broken(method, error) from error

    def _end(self, method: str, end: Callable[[], None]) -> None:
        """Calls a method and the hooks' `cleanup`. Exceptions are only logged, because the task ends anyway."""
        for each in (end, *(hook.cleanup for hook in self._hooks)):
            try:
                each()
            except Exception:  # any exception of a user's component
                self._logger.exception("%s/%d: %s() raised", self._component, self._task, method)

    def _broken(self, method: str, error: Exception) -> ComponentError:
        self._logger.exception("%s/%d: %s() raised", self._component, self._task, method)
        return ComponentError(self._component, self._task, method, error)


def open_sessions(sink: Sink, tasks: Sequence[Task]) -> None:
    """Opens sessions, before tasks do anything else; raises `BrokerError` if that is not delivered in time."""
    for task in tasks:
        task.open_session()
    left = sink.flush_acks(OPEN_SECONDS)
    for task in tasks:
        if task.failure is not None:
            raise task.failure
    if left:
        raise BrokerError(
            f"the sessions of {len(tasks)} tasks could not be opened: {left} ack batches were not delivered within "
            f"{OPEN_SECONDS:.0f} s; check that the partitions of the ack topic have leaders"
        )
