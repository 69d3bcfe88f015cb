"""What the collectors of spouts and bolts share."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spout_sdk.api.context import TaskContext
from spout_sdk.emitting.ack_buffer import AckBuffer
from spout_sdk.emitting.emit_plans import EmitPlan, emit_plans, unknown_stream
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.packer import Packer
from spout_sdk.errors import DeliveryError, is_refused
from spout_sdk.kafka.delivery_reports import LostTuples
from spout_sdk.statistics.counters import Counters
from spout_sdk.statistics.repetition import Repetition
from spout_sdk.topologies.topology import Topology

logger = logging.getLogger("spout_sdk.bolts.collectors")


@dataclass(frozen=True, slots=True)
class TaskScope:
    """What the parts of one task share; `acks` is None where trees are not followed."""

    topology: Topology
    context: TaskContext
    environment: TaskEnvironment
    acks: AckBuffer | None
    next_id: Callable[[], int]


class Emitter:
    """Base of the collectors: a task's streams, and what it reports."""

    def __init__(self, scope: TaskScope) -> None:
        environment = scope.environment
        self.scope = scope
        self.plans: dict[str, EmitPlan] = emit_plans(scope.topology, scope.context.component, scope.next_id)
        self.packer = Packer(environment.sink, environment.counters, self._undelivered)
        # Whether each tuple has to be emitted and acked by a call of its own; the testing kit follows them.
        self.is_watched = False
        self._context = scope.context
        self._component = scope.context.component
        self._hooks = scope.context.hooks
        self._counters = environment.counters
        self._clock = environment.clock
        self._reported = Repetition(environment.clock)
        self._next_id = scope.next_id
        self._acks = scope.acks
        self._sink = environment.sink
        self._lost = LostTuples(environment.counters)
        if scope.acks is not None:
            scope.acks.send_children = self.packer.flush
        self._add = self.packer.add
        self._add_one = self.packer.add_one
        self._add_untracked = self.packer.add_untracked
        self._added = self.packer.added

    @property
    def metrics(self) -> Counters:
        """What the tasks of this process have done; it lives, so read it and leave it."""
        return self._counters

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task goes on: it is logged, counted and shown in the stats."""
        self._counters.count_error(error)
        line = self._reported.line(error)
        if line is not None:
            what = (self._component, self._context.task, type(error).__name__, error, line.more)
            logger.error("%s/%d reports an error: %s: %s%s", *what, exc_info=line.traceback)

    def _plan(self, stream: str) -> EmitPlan:
        if (plan := self.plans.get(stream)) is None:
            raise unknown_stream(self._component, stream, self.plans)
        return plan

    def _undelivered(self, roots: Sequence[int], tuples: int, error: Any, message: Any) -> None:
        """Tuples were not delivered: their trees cannot complete, so they fail now and not by time-out."""
        if self._acks is None or not len(roots):
            self._lost.count(tuples, error, message)
            return
        self._counters.undelivered += tuples
        cause = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        text = f"a tuple of {self._component} was not delivered: {cause}"
        for root in dict.fromkeys(map(int, roots)):
            self._acks.fail(root, text)
        if message is not None and is_refused(error):
            # Each replay would end like this one.
            what = f"a tuple of {self._component}"
            self._acks.failure = DeliveryError(what, message.topic(), message.partition(), error)
