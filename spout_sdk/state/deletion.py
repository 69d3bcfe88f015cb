"""`DELETE`, which `update` of a bolt with a state returns to delete a key."""

from enum import Enum
from typing import Any, Final

from spout_sdk.errors import StateError
from tuple_tree.streams import StreamDeclaration


class Deletion(Enum):
    """Deletes the key if `update` of a `StatefulBolt` returns it, and the window if that of an `AggregateBolt` does."""

    DELETE = "DELETE"

    def __repr__(self) -> str:
        return self.name


DELETE: Final = Deletion.DELETE


class Absence:
    """Checks that a bolt has returned `DELETE`, or None where its state may be null, and not forgotten to return.

    Args:
        is_single: whether a value is that of the one field alone.
    """

    def __init__(self, bolt: Any, component: str, value: StreamDeclaration, *, is_single: bool) -> None:
        type_ = value.fields[0].type
        self._is_null_allowed = is_single and (type_ == "null" or (isinstance(type_, list | tuple) and "null" in type_))
        self._bolt, self._component = type(bolt).__name__, component

    def check(self, value: Any, method: str = "update") -> None:
        """Raises `StateError` if `value`, None or `DELETE`, does not delete a key."""
        if value is not DELETE and not self._is_null_allowed:
            raise StateError(
                f"{method}() of bolt {self._component!r} returned None, and its state may not be null: return the new "
                f"value from {self._bolt}.{method}, or `return DELETE` of spout_sdk.state to delete the key"
            )
