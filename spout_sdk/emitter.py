"""What emitting has in common for spouts and bolts."""

import logging
from collections.abc import Callable
from typing import Any

from spout_sdk.ack_buffer import AckBuffer
from spout_sdk.context import TaskContext
from spout_sdk.counters import Counters
from spout_sdk.emit_plans import EmitPlan, unknown_stream
from spout_sdk.errors import DeliveryError, is_refused
from spout_sdk.records import TaskEnvironment
from tuple_tree.anchors import unpack_anchors

logger = logging.getLogger("spout_sdk.collectors")

NextId = Callable[[], int]


def _anchors_header(undelivered: Callable[[bytes, Any, Any], None]) -> type[bytes]:
    """Makes the type of a task's `anchors` headers, which are also what is called if their tuple is not delivered.

    One object a tuple instead of two, and none that the garbage collector has to look at while it is on its way.

    Args:
        undelivered: called with the header, the error and the message.
    """

    class AnchorsHeader(bytes):
        __slots__ = ()

        def __call__(self, error: Any, message: Any) -> None:
            undelivered(self, error, message)

    return AnchorsHeader


class Emitter:
    """A task's streams, and what it tells of itself; for the collectors."""

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
        self._send = environment.sink.send
        self._next_id = next_id
        self._acks = acks
        self._header: Callable[[bytes], Any] = _anchors_header(self._undelivered)

    @property
    def metrics(self) -> Counters:
        """What the tasks of this process have done; it lives, so read it and leave it."""
        return self._counters

    def report_error(self, error: BaseException) -> None:
        """Says that something went wrong and that the task goes on: logged, counted, shown in the stats."""
        self._counters.count_error(error)
        logger.error("%s/%d reports an error", self._component, self._context.task, exc_info=error)

    def _plan(self, stream: str) -> EmitPlan:
        plan = self._plans.get(stream)
        if plan is None:
            raise unknown_stream(self._component, stream, self._plans)
        return plan

    def _undelivered(self, anchors: bytes, error: Any, message: Any) -> None:
        """Kafka did not take a tracked tuple: its trees cannot complete, so they fail now and not by time-out."""
        self._counters.undelivered += 1
        if self._acks is not None:
            for root in unpack_anchors(anchors):
                self._acks.fail(root, f"a tuple of {self._component} was not delivered: {error}")
            if is_refused(error) and message is not None:
                # Each replay would end like this one.
                what = f"a tuple of {self._component}"
                self._acks.give_up(DeliveryError(what, message.topic(), message.partition(), error))
