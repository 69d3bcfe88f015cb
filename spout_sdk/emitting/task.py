"""What the tasks of bolts and spouts share."""

import logging
from collections.abc import Callable
from typing import Any, ClassVar

from spout_sdk.api.context import TaskContext
from spout_sdk.emitting.ack_buffer import AckBuffer
from spout_sdk.emitting.emit_plans import emit_plans
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import ComponentError
from spout_sdk.topologies.topology import Topology
from tuple_tree.ids import random_ids
from tuple_tree.messages import SESSION_BYTES, SpoutAddress
from tuple_tree.names import acks_topic


class Task:
    """Base of `BoltTask` and `SpoutTask`: context, ack buffer, emit plans and hooks of one task."""

    _logger: ClassVar[logging.Logger]
    _collector: Emitter

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
        self._acks: AckBuffer | None = None
        if manifest.acking:
            self._acks = AckBuffer(
                acks_topic(manifest.topology),
                manifest.ack_partitions,
                f"{component}/{task}",
                environment.entropy(SESSION_BYTES),
                environment.sink,
                inputs,
                spout,
            )
        self._next_id = random_ids(environment.entropy).__next__
        self._plans = emit_plans(manifest, component, self._next_id, topology.groupings, topology.pack_tuples)

    def open_session(self) -> None:
        """Opens a session as this task's writer; it must be delivered before anything else is sent."""
        if self._acks is not None:
            self._acks.open()

    def flush(self) -> None:
        """Sends all that is buffered."""
        self._collector.packer.flush()
        if self._acks is not None:
            self._acks.flush()

    def _make(self, topology: Topology) -> Any:
        """The user's instance."""
        try:
            return topology.factory(self._component)()
        except Exception as error:
            raise self._broken("__init__", error) from error

    def _end(self, method: str, end: Callable[[], None]) -> None:
        """Calls a method and the hooks' `cleanup`. Exceptions are only logged, because the task ends anyway."""
        for each in (end, *(hook.cleanup for hook in self._hooks)):
            try:
                each()
            except Exception:  # whatever a user's component raises
                self._logger.exception("%s/%d: %s() raised", self._component, self._task, method)

    def _broken(self, method: str, error: Exception) -> ComponentError:
        self._logger.exception("%s/%d: %s() raised", self._component, self._task, method)
        return ComponentError(self._component, self._task, method, error)
