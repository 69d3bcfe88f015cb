"""The collector of a `BasicBolt`: emits are anchored to the input, and a record's ids are drawn together (ADR 25)."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from spout_sdk.api.context import TaskId
from spout_sdk.api.tuples import InputPack, Tuple
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.emitting.emitter import EmitPlan
from spout_sdk.emitting.packer import OpenPack
from spout_sdk.statistics.stats import Counters
from tuple_tree.ids import IdColumn, random_column
from tuple_tree.streams import DEFAULT_STREAM

FEWEST: Final = 8  # tuples of a record from which columns are cheaper than ids one by one
_NO_PLANS: Final[dict[str, EmitPlan]] = {}


class BasicCollector:
    """The collector of a `BasicBolt`.

    Attributes:
        input: the tuple that is being executed.
        done: the tuples of the record that were processed and are not settled yet.
    """

    def __init__(self, collector: OutputCollector) -> None:
        self.input: Tuple | None = None
        self.done: list[Tuple] = []
        self._collector = collector
        self._counters = collector.metrics
        self._pack: InputPack
        self._edges: IdColumn
        self._out: IdColumn
        self._acks = collector.task.acks
        self._entropy = collector.task.environment.entropy
        self._packer = collector.packer
        self._packer.assign_edges = self._assign
        # Of the streams with one subscriber, each of whose tuples goes to one task.
        self._streams = {name: plan for name, plan in collector.plans.items() if plan.only_route is not None}
        self._plans = _NO_PLANS
        self._roots: IdColumn | None = None

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> tuple[TaskId, ...]:
        """Sends a tuple, anchored to the input, to every subscriber of a stream.

        Returns:
            The tasks that receive a copy.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it.
        """
        plan = self._plans.get(stream)
        if plan is None:
            input_ = self.input
            return self._collector.emit(values, anchors=() if input_ is None else input_, stream=stream)
        route: Any = plan.only_route
        # `EmitPlan.routed`, without the call: this is where a bolt spends its time.
        row = values if values.__class__ is tuple and plan.is_row(values) else plan.row(values)
        try:
            task = route.choose_one(values)
        except (TypeError, ValueError) as error:
            raise plan.ungrouped(values, error) from error
        pack = route.packs[task]
        owners = pack.owners
        if not owners:
            self._packer.open(pack)
        owners.append(self.input.index)  # type: ignore[union-attr]  # there is one while there are plans
        rows = pack.rows
        rows.append(row)
        if len(rows) >= pack.limit:
            self._packer.send(pack)
        return route.alone[task]  # type: ignore[no-any-return]

    def emit_direct(self, task: TaskId, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> tuple[TaskId, ...]:
        """Sends a tuple, anchored to the input, to one task of a subscriber of a direct stream.

        Returns:
            The task.

        Raises:
            EmitError: if the stream is not direct, or the task does not receive it.
        """
        return self._collector.emit_direct(
            task, values, anchors=() if self.input is None else self.input, stream=stream
        )

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task continues: it is logged, counted and shown in the stats."""
        self._collector.report_error(error)

    @property
    def metrics(self) -> Counters:
        """Live counters of the tasks of this process; read-only."""
        return self._counters

    def reset_timeout(self) -> None:
        """Restarts the clock of the input's trees: it is still being worked on."""
        if self.input is not None:
            self._collector.reset_timeout(self.input)

    def begin(self, pack: InputPack) -> None:
        """Called by the SDK: tuples of a record are executed together, until `settle`.

        What they emit has an owner, the index of its input, and no edge yet. Edges are drawn when the pack is sent, or
        in `settle`, which computes the ack vals then: never while a child of an input has no edge.
        """
        self._pack = pack
        if pack.ids is not None:
            self._roots, self._edges = pack.ids[::2], pack.ids[1::2]
            self._out = np.zeros(pack.size, np.uint64)
        else:
            self._roots = None
        self._plans = self._streams

    def leave_out(self, tuple_: Tuple) -> None:
        """Called by the SDK: leaves a tuple that raised out of `settle`; the edges of its children move into it."""
        self._packer.assign_all()
        if self._roots is not None:
            tuple_.out ^= int(self._out[tuple_.index])

    def settle(self) -> None:
        """Called by the SDK: acks the tuples of the record that were processed."""
        self.input = None
        self._plans = _NO_PLANS
        self._packer.assign_all()
        done, self.done = self.done, []
        if not done:
            return
        pack = self._pack
        for tuple_ in done:
            if tuple_.pack is not pack:
                raise AssertionError("tuples of two records are executed together: their edges would be mixed up")
            tuple_.settled = True
        if self._roots is not None:
            roots, vals = self._roots, self._edges ^ self._out
            if len(done) != len(roots):
                places = [tuple_.index for tuple_ in done]
                roots, vals = roots[places], vals[places]
            # Of children that did not come through `emit` above.
            vals ^= np.array([tuple_.out for tuple_ in done], np.uint64)
            self._acks.ack_columns(roots, vals)
        self._collector.settled(pack, len(done))

    def _assign(self, pack: OpenPack) -> None:
        owners, pack.owners = pack.owners, []
        self._counters.emitted += len(owners)
        if self._roots is not None:
            of = np.array(owners, np.intp)
            edges = random_column(len(of), self._entropy)
            np.bitwise_xor.at(self._out, of, edges)
            pack.add_ids(self._roots[of], edges)
