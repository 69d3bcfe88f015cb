"""`StateValue`: objects of a class as the values of a state."""

from typing import Any

from spout_sdk.api.row_types import RowType
from spout_sdk.arguments import check_seconds
from spout_sdk.state.spec import VALUE, StateSpec
from tuple_tree.streams import not_in_json


class StateValue:
    """The values of a state, with a field for each member of a class, or a single one.

    Args:
        expire_after: seconds after its last change until a key is deleted; None to keep keys.

    Attributes:
        spec: the declaration of the state.
    """

    def __init__(self, row_type: RowType[Any], expire_after: float | None) -> None:
        if expire_after is not None:
            check_seconds("expire_after of the state", expire_after)
        self._of = row_type
        codec = "avro" if any(not_in_json(each.type) for each in row_type.stream.fields) else "json"
        declared = row_type.stream.model_copy(update={"name": VALUE, "codec": codec})
        self.spec = StateSpec(declared, is_single=not row_type.has_members, expire_after=expire_after)

    def object(self, value: Any) -> Any:
        """A value of the state as an object of the class."""
        of = self._of
        return of.row([value[name] for name in of.stream.field_names] if of.has_members else (value,))

    def kept(self, object_: Any) -> Any:
        """An object as a value of the state; raises `TypeError` if it is not of the class."""
        values = self._of.values(self._of.checked(object_))
        return dict(zip(self._of.stream.field_names, values, strict=True)) if self._of.has_members else values[0]
