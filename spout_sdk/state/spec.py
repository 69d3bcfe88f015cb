"""The declaration of a state: the fields of a value, and how long a key is kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext
from spout_sdk.arguments import check_seconds
from tuple_tree.streams import StreamDeclaration, declare

VALUE = "value"
"""Name of the only field of a state of a single value, and of the stream that describes the fields of a state."""


@dataclass(frozen=True, slots=True)
class StateSpec:
    """The values of a state.

    Attributes:
        value: the fields, and the codec of values in the changelog.
        is_single: whether a value is the value of the only field, and not a `dict`.
        expire_after: seconds after its last change until a key is deleted; None to keep keys.
    """

    value: StreamDeclaration
    is_single: bool
    expire_after: float | None = None


def keyed_state(value: Any, *, codec: Literal["json", "avro"] = "json", expire_after: float | None = None) -> StateSpec:
    """Declares the state of a bolt: a value for each key.

    Args:
        value: the fields by name, with their types as in `declare`; or one type, for a state of a single value.
        codec: the codec of values in the changelog: `json`, or `avro` for bytes, times and decimals, which JSON lacks.
        expire_after: seconds after its last change until a key is deleted, by the clock of the task; None to keep keys.

    Raises `ValueError` if an argument is invalid.
    """
    if codec not in ("json", "avro"):
        raise ValueError(f"the state has codec {codec!r}: use json, or avro")
    if expire_after is not None:
        check_seconds("expire_after of the state", expire_after)
    is_single = not (isinstance(value, Mapping) and "type" not in value)
    fields = {VALUE: value} if is_single else value
    return StateSpec(declare(fields, name=VALUE, codec=codec), is_single, expire_after)


def spec_of(state: Any) -> StateSpec:
    """The spec of a bolt's `state`, which is a `StateSpec`, or its fields or type. Raises `ValueError`."""
    return state if isinstance(state, StateSpec) else keyed_state(state)


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
