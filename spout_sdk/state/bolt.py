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

    A key consists of the values of the fields that the bolt is grouped by. The fields grouping assigns each key to a
    task. The values are in the changelog, the topic `{topology}.state.{bolt}`, which a task reads before it executes.

    Attributes:
        state: the fields of a value, by name, with their types; or one type, for a single value; or `keyed_state(…)`.
        initial: the value of a key that has none; by default zero, empty, false or null, by the type of each field.
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

    For a replayed tuple, `emit` is called again, and `update` is not. The bolts upstream must emit the same tuples in
    the same order each time that a message is replayed.

    Attributes:
        answers: whether `emit` calls `collector.answer`; if so, the topology has a topic of answers.
    """

    answers: ClassVar[bool] = False

    @abstractmethod
    def update(self, value: Any, tuple_: Tuple) -> Any:
        """Returns the new value of the tuple's key, or `DELETE` to delete the key.

        It is called once for each tuple, however often the tuple's message is replayed. None, as of a missing `return`,
        is an error; of a state that may be null, it deletes the key.

        Args:
            value: the value of the key: a `dict` of the fields, or the single value. You may change and return it.
            tuple_: the input; if this method raises, the input fails, and the value stays as it was.
        """

    def emit(self, key: Any, value: Any, tuple_: Tuple, collector: "StateCollector") -> None:
        """Called after `update`, and again when the tuple is replayed, to emit tuples; emits nothing by default.

        Args:
            key: the value of the grouping field, or a tuple of values for several fields.
            value: the current value of the key; None if it has none.
            tuple_: the input, to which emits are anchored; it is acked when this method returns. If this method raises,
                the input fails, and the value stays as it was before `update`.
            collector: emits anchored to the input; `collector.write` writes records to a topic.
        """


class StatefulArrowBolt(AnyStatefulBolt, ABC):
    """A bolt with a value for each key, called with Arrow record batches that have a row for each tuple.

        class Counts(StatefulArrowBolt):
            state = {"count": int}
            streams = (declare({"word": str, "count": int}),)

            def update_batch(self, values, rows, batch):
                return {"count": values["count"].to_numpy() + np.bincount(rows, minlength=len(values))}

            def emit_batch(self, values, rows, batch, collector):
                keys, first = np.unique(rows, return_index=True)  # a result for each key
                result = {"word": batch["word"].take(first), "count": values["count"].take(keys)}
                collector.emit(result, anchors=first)

    The rows of a call are acked together, and fail together. A state of a single value has the column `value`.
    """

    @abstractmethod
    def update_batch(self, values: Any, rows: Any, batch: Any) -> Any:
        """Returns the new values of the keys of a batch.

        It is called once for each row. If it raises, the rows fail, and the values stay as they were.

        Args:
            values: a `pyarrow.RecordBatch` with a column for each field of the state, a row for each different key.
            rows: for each row of the batch, the row of `values` that has its key: integers of shape `(n,)`.
            batch: a `pyarrow.RecordBatch` with a column for each field of the stream.

        Returns:
            A table with a row for each row of `values`: a record batch, a data frame, or columns by name.
        """

    def emit_batch(self, values: Any, rows: Any, batch: Any, collector: "StateArrowCollector") -> None:
        """Called after `update_batch`, and again when rows are replayed, to emit tuples; emits nothing by default.

        The rows are acked when this method returns.

        Args:
            values: the current values, a row for each different key of `batch`.
            rows: for each row of the batch, the row of `values` that has its key.
            batch: all rows, including replayed ones.
            collector: emits for these rows: `collector.emit(table, anchors=…)`, `collector.write(topic, values)`.
        """
