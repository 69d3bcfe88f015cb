"""Bolts with a state: a value for each key, which each tuple changes once."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from spout_sdk.api.needs import Needs
from spout_sdk.api.tuples import Tuple
from spout_sdk.state.collectors import StateCollector
from spout_sdk.state.spec import AnyStatefulBolt
from spout_sdk.state.state_operator import StateOperator


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

    needs = Needs("a StatefulBolt", called_by=StateOperator, instance=True, state=True, answers=True)
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

    def emit(self, key: Any, value: Any, tuple_: Tuple, collector: StateCollector) -> None:
        """Called after `update`, and again when the tuple is replayed, to emit tuples; emits nothing by default.

        Args:
            key: the value of the grouping field, or a tuple of values for several fields.
            value: the current value of the key; None if it has none.
            tuple_: the input, to which emits are anchored; it is acked when this method returns. If this method raises,
                the input fails, and the value stays as it was before `update`.
            collector: emits anchored to the input; `collector.write` writes records to a topic.
        """
