"""What the collectors of spouts and bolts share."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from spout_sdk.api.context import TaskContext
from spout_sdk.emitting.ack_buffer import AckBuffer
from spout_sdk.emitting.emit_plans import EmitPlan, unknown_stream
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.packer import Packer
from spout_sdk.errors import DeliveryError, is_refused
from spout_sdk.kafka.delivery_reports import LostTuples
from spout_sdk.statistics.counters import Counters
from spout_sdk.statistics.repetition import Repetition

logger = logging.getLogger("spout_sdk.bolts.collectors")

NextId = Callable[[], int]


class Emitter:
    """Base of the collectors: a task's streams, and what it reports.

    Attributes:
        packer: what is emitted and not sent yet.
        is_watched: whether each tuple has to be emitted and acked by a call of its own; the testing kit follows them.
    """

    def __init__(
        self,
        context: TaskContext,
        plans: dict[str, EmitPlan],
        environment: TaskEnvironment,
        next_id: NextId,
        acks: AckBuffer | None,
    ) -> None:
        self._context = context
        self._component = context.component
        self._hooks = context.hooks
        self._plans = plans
        self._counters = environment.counters
        self._reported = Repetition(environment.clock)
        self._next_id = next_id
        self._acks = acks
        self._sink = environment.sink
        self.is_watched = False
        self._lost = LostTuples(environment.counters)
        self.packer = Packer(environment.sink, environment.counters, self._undelivered)
        if acks is not None:
            acks.send_children = self.packer.flush
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
        if (plan := self._plans.get(stream)) is None:
            raise unknown_stream(self._component, stream, self._plans)
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
            self._acks.give_up(DeliveryError(what, message.topic(), message.partition(), error))
