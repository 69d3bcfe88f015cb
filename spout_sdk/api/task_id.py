"""The address of a task."""

from typing import NamedTuple


class TaskId(NamedTuple):
    """A task of a component.

    Attributes:
        component: its name.
        task: which of its tasks, from 0.
    """

    component: str
    task: int

    def __str__(self) -> str:
        return f"{self.component}/{self.task}"
