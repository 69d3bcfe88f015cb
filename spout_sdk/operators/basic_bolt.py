"""`BasicBolt`, whose emits are anchored to its input; its collector, and its operator."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext, TaskId
from spout_sdk.api.needs import Needs
from spout_sdk.api.tuples import NO_OFFSET, NO_TREES, Tuple
from spout_sdk.bolts.operator import Operator
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.buffer import MultiAnchor
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.task import Task
from spout_sdk.operators.bolt import places_of
from tuple_tree.input_batch import InputBatch
from tuple_tree.streams import DEFAULT_STREAM


class BasicCollector(Emitter):
    """The collector of a `BasicBolt`.

    Attributes:
        input: the tuple that is being executed.
    """

    input: Tuple | None = None

    def __init__(self, task: Task, settlement: Settlement) -> None:
        super().__init__(task)
        self._settlement = settlement
        # The place in a batch that the next tuples are anchored to.
        self._batch: InputBatch | MultiAnchor = NO_TREES
        self._place = 0
        # The pack of the default stream, if one task receives all of its tuples.
        plan = self._plans.get(DEFAULT_STREAM)
        self._pack: OpenPack | None = None
        if plan is not None and plan.only is not None and not self._is_numbered:
            (self._pack,), self._is_row = plan.only, plan.is_row

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Sends a tuple, anchored to the input, to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            stream: one of the component's streams.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it; nothing was sent then.
        """
        pack = self._pack
        if (
            pack is not None
            and pack.batch is self._batch
            and stream is DEFAULT_STREAM
            and values.__class__ is tuple
            and not self._hooks
            and len(rows := pack.rows) < pack.limit
            and self._is_row(values)
        ):
            # The most frequent case, without further calls.
            rows.append(values)
            pack.places.append(self._place)
            self._counters.emitted += 1
            return
        packs = self._emit(values, stream, self._batch, self._place)
        if self._hooks:
            self._call_hooks(values, stream, packs, () if self.input is None else (self.input,))

    def emit_direct(self, task: TaskId, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Sends a tuple, anchored to the input, to one task of a subscriber of a direct stream.

        Raises:
            EmitError: if the stream is not direct, or the task does not receive it.
        """
        packs = self._emit(values, stream, self._batch, self._place, task)
        if self._hooks:
            self._call_hooks(values, stream, packs, () if self.input is None else (self.input,))

    def answer(self, value: Any) -> None:
        """Answers the message that the input comes from; the input is acked when the answer is delivered.

        Args:
            value: anything that `json.dumps` takes.

        Raises:
            TopologyError: if the class of the bolt does not have `answers = True`.
            TypeError: if the value is not JSON; nothing was sent then. `ValueError` for NaN and infinity.
        """
        if self.input is not None and not self.input.is_tick:
            self._settlement.writes.answer(self.input, value)

    def reset_timeout(self) -> None:
        """Restarts the clock of the input's trees: it is still being worked on."""
        if self.input is not None:
            self._settlement.reset_timeout(self.input)


class BasicOperator(Operator):
    """Anchors what a `BasicBolt` emits to the input, and acks the inputs of a call together."""

    makes_collector = BasicCollector

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self._basic = self.makes_collector(task, self._settlement)

    @property
    def _call(self) -> Callable[[Tuple, BasicCollector], object]:
        """The function that executes a tuple, called with the tuple and the collector."""
        execute: Callable[[Tuple, BasicCollector], object] = self._bolt.execute
        return execute

    def process(self, inputs: Any) -> None:
        tuples: Sequence[Tuple] = inputs
        execute, basic, failures = self._call, self._basic, self.failures
        pack = tuples[0].pack
        # If each input has one place, emits need nothing else of it.
        has_places = pack.starts is None and pack.offset != NO_OFFSET
        basic._batch = pack.batch
        failed: list[Tuple] = []
        reached = len(tuples)
        try:
            for tuple_ in tuples:
                basic.input = tuple_
                if has_places:
                    basic._place = tuple_.place
                else:
                    basic._batch, basic._place = places_of((tuple_,), self._settlement)
                try:
                    execute(tuple_, basic)
                except BaseException as error:  # noqa: BLE001 - anything that a user's bolt raises
                    at = tuples.index(tuple_)
                    if at and failed[-1:] != tuples[at - 1 : at]:
                        failures.in_a_row = 0
                    failed.append(tuple_)
                    failures.handle((tuple_,), error)
                    if failures.is_paused:
                        reached = at + 1
                        self._defer_after(tuple_, tuples)
                        break
            else:
                if not failed or failed[-1] is not tuples[-1]:
                    failures.in_a_row = 0
        except BaseException:
            reached = tuples.index(basic.input)  # the tuples after it were not executed
            raise
        finally:
            basic.input, basic._batch, basic._place = None, NO_TREES, 0
            done = [each for each in tuples[:reached] if each not in failed] if failed else tuples[:reached]
            self._settlement.ack_together(done)

    @property
    def input(self) -> Tuple | None:  # type: ignore[override]
        return self._basic.input


class BasicBolt(AnyBolt, ABC):
    """A bolt whose emits are anchored to its input, which is acked when `execute` returns.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
        tick_interval: as in `Bolt`.
        answers: as in `Bolt`.
    """

    needs = Needs("a BasicBolt", called_by=BasicOperator, ticks=True, answers=True)
    tick_interval: float | None = None
    answers: ClassVar[bool] = False

    def prepare(self, context: TaskContext) -> None:
        """Called once, before anything else."""

    @abstractmethod
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Process a tuple. If it raises, the tuple fails with the exception's type and text."""

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process."""
