"""Bolts with a state: a value for each key, which each tuple changes once; their tasks call them through adapters."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import Tuple

if TYPE_CHECKING:
    from spout_sdk.state.collectors import StateArrowCollector, StateCollector


class AnyStatefulBolt(AnyBolt):
    """Base of the bolts with a state.

    A key is the values of the fields that the bolt is grouped by. A task has the keys that its fields grouping gives to
    it. Their values are in the changelog, the topic `{topology}.state.{bolt}`, which a task reads before it executes.

    Attributes:
        state: the fields of a value, by name, with their types; or one type, for one value; or `keyed_state(…)`.
        initial: the value of a key that has none; unless set, zero, empty, false or null, by the type of each field.
    """

    state: Any
    initial: Any = None

    def prepare(self, context: TaskContext) -> None:
        """Called once, before anything else."""

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process."""


class StatefulBolt(AnyStatefulBolt, ABC):
    """A bolt with a value for each key, which each tuple may change.

        class Totals(StatefulBolt):
            state = {"orders": int, "euros": float}
            streams = (declare({"customer": str, "orders": int, "euros": float}),)

            def update(self, total: dict, tuple_: Tuple) -> dict:
                return {"orders": total["orders"] + 1, "euros": total["euros"] + tuple_["euros"]}

            def emit(self, key: str, total: dict, tuple_: Tuple, collector: StateCollector) -> None:
                collector.emit((key, total["orders"], total["euros"]))

        builder.set_bolt("totals", Totals, tasks=4).fields_grouping("orders", "customer")

    A tuple that is replayed calls `emit` again, but not `update`. That a message makes the same tuples in the same
    order each time is up to the bolts before.

    Attributes:
        answers: whether `emit` calls `collector.answer`; then the topology has a topic of answers.
    """

    answers: ClassVar[bool] = False

    @abstractmethod
    def update(self, value: Any, tuple_: Tuple) -> Any:
        """Returns the new value of the tuple's key, or None to delete the key.

        It is called once for each tuple, however often the tuple's message is replayed.

        Args:
            value: of the key; a `dict` of the fields, or the one value. Yours to change and return.
            tuple_: the input; if this raises, it fails, and the value stays as it was.
        """

    def emit(self, key: Any, value: Any, tuple_: Tuple, collector: "StateCollector") -> None:
        """Emits, after `update`, and again when the tuple is replayed; by default nothing.

        Args:
            key: the value of the grouping field, or of several fields a tuple of values.
            value: of the key, as it is now; None if it has none.
            tuple_: the input, to which emits are anchored; it is acked when this returns. If this raises, it fails, and
                the value stays as it was before `update`.
            collector: emits anchored to the input; `collector.write` writes records to a topic.
        """


class StatefulArrowBolt(AnyStatefulBolt, ABC):
    """A bolt with a value for each key, which works on columns: called with record batches of Arrow, a row a tuple.

        class Counts(StatefulArrowBolt):
            state = {"count": int}
            streams = (declare({"word": str, "count": int}),)

            def update_batch(self, values, rows, batch):
                return {"count": values["count"].to_numpy() + np.bincount(rows, minlength=len(values))}

            def emit_batch(self, values, rows, batch, collector):
                keys, first = np.unique(rows, return_index=True)  # a result for each key
                result = {"word": batch["word"].take(first), "count": values["count"].take(keys)}
                collector.emit(result, anchors=first)

    The rows of a call are acked together, and fail together. A state of one value has the column `value`.
    """

    @abstractmethod
    def update_batch(self, values: Any, rows: Any, batch: Any) -> Any:
        """Returns the new values of the keys of a batch.

        Called once for each row. If it raises, the rows fail, and the values stay as they were.

        Args:
            values: a `pyarrow.RecordBatch` with a column for each field of the state, a row for each different key.
            rows: for each row of the batch, the row of `values` of its key: integers of shape `(n,)`.
            batch: a `pyarrow.RecordBatch` with a column for each field of the stream.

        Returns:
            A table with the same rows: a record batch, a data frame, or columns by name.
        """

    def emit_batch(self, values: Any, rows: Any, batch: Any, collector: "StateArrowCollector") -> None:
        """Emits, after `update_batch`, and again when rows are replayed; by default nothing.

        The rows are acked when this returns.

        Args:
            values: as they are now, a row for each different key of `batch`.
            rows: for each row of the batch, the row of `values` of its key.
            batch: all rows, replayed ones included.
            collector: for these rows; `collector.emit(table, anchors=…)`, `collector.write(topic, values)`.
        """
