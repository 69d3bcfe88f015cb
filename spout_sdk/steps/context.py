"""`StepContext`: information for a step about the row that it is called with."""

from collections.abc import Callable
from typing import Any

from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import Tuple


class StepContext:
    """The second argument of a step that has a parameter of this type: about the row of this call.

        def ship(item: Item, context: StepContext) -> None:
            context.count("shipped")

    A step that takes several rows has none. The key, headers and time of a message are members of a `KafkaMessage`.
    """

    __slots__ = ("_answer", "_failures_of", "_task", "_tuple")

    def __init__(
        self,
        task: TaskContext,
        tuple_: Tuple,
        answer: Callable[[Any], None],
        failures_of: Callable[[Tuple], int],
    ) -> None:
        self._task, self._tuple, self._answer, self._failures_of = task, tuple_, answer, failures_of

    @property
    def identity(self) -> str | None:
        """As `Tuple.identity`: a text that stays the same when the message is replayed."""
        return self._tuple.identity

    @property
    def attempt(self) -> int:
        """How often this task has called the step for the row before, and it failed: 0 for the first call."""
        return self._failures_of(self._tuple)

    @property
    def task(self) -> int:
        """The number of the task."""
        return self._task.task

    def answer(self, value: Any) -> None:
        """Answers the message that the row comes from; the row is acked when the answer is delivered.

        Args:
            value: anything that `json.dumps` takes.
        """
        self._answer(value)

    def count(self, name: str, amount: int = 1) -> None:
        """Adds to a counter that statistics and metrics show."""
        self._task.count(name, amount)
