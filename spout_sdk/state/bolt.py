"""Bolts with a state: a value for each key, which each tuple changes once; their tasks call them through adapters."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext
from spout_sdk.api.needs import Needs
from spout_sdk.api.tuples import Tuple

if TYPE_CHECKING:
    from spout_sdk.state.collectors import StateCollector


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

    needs = Needs("a StatefulBolt", instance=True, state=True, answers=True)
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
