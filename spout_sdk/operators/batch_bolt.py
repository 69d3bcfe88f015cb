"""`BatchBolt`, which takes tuples in batches; its operator."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext
from spout_sdk.api.needs import Needs
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.call_sizes import BatchSize
from spout_sdk.operators.bolt import BoltOperator, OutputCollector


class BatchOperator(BoltOperator):
    """Calls a `BatchBolt` with all tuples at once."""

    takes_several = True
    makes_size = BatchSize

    def process(self, inputs: Any) -> None:
        self._settlement.executing = inputs
        try:
            self._bolt.execute_batch(inputs)
        except BaseException as error:  # noqa: BLE001 - anything that a user's bolt raises
            self.failures.handle(inputs, error)
        else:
            self.failures.in_a_row = 0
        self._settlement.executing = ()


class BatchBolt(AnyBolt, ABC):
    """A bolt that processes tuples in batches, and acks them itself.

    Anchor an emit to one of the tuples or to several, `collector.emit(values, anchors=tuples)`. Ack each, or all with
    `collector.ack_all(tuples)`.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
        answers: as in `Bolt`.
    """

    needs = Needs("a BatchBolt", called_by=BatchOperator, answers=True, anchors_several=True)
    answers: ClassVar[bool] = False

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        """Called once, before anything else; keep the collector."""

    @abstractmethod
    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        """Process tuples, in the order of their offsets, and ack or fail each, now or later.

        If it raises, the tuples that are still open fail with the exception's type and text.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; tuples may still be acked here."""
