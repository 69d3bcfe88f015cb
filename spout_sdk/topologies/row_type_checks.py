"""Checks that steps take the rows of the streams that they receive."""

from collections.abc import Mapping
from typing import Any

from spout_sdk.api.row_members import shown_type
from spout_sdk.api.row_types import RowType
from spout_sdk.errors import TopologyError
from tuple_tree.manifest import Manifest
from tuple_tree.streams import StreamDeclaration


def checked_row_types(manifest: Manifest, made: Mapping[str, Any]) -> dict[tuple[str, str], RowType[Any]]:
    """Component and stream → the type of its rows.

    Raises:
        TopologyError: if a step takes rows of another type than its source emits.
    """
    types: dict[tuple[str, str], RowType[Any]] = {}
    for component in manifest.components:
        for stream, row_type in getattr(made.get(component.name), "row_types", {}).items():
            types[component.name, stream] = row_type
    for bolt in manifest.bolts:
        takes: RowType[Any] | None = getattr(made[bolt.name], "takes", None)
        if takes is None:
            continue
        for subscription in bolt.subscriptions:
            at = subscription.source, subscription.stream
            where = f"step {bolt.name!r} receives stream {subscription.stream!r} of {subscription.source!r}"
            _check(where, takes, types.get(at), manifest.stream(*at))
    return types


def _check(where: str, takes: RowType[Any], gives: RowType[Any] | None, stream: StreamDeclaration) -> None:
    if gives is not None:
        if takes.takes(gives):
            return
        raise TopologyError(
            f"{where}, whose rows are {shown_type(gives.type)}, and takes {shown_type(takes.type)}: write "
            f"{shown_type(gives.type)} as the type of its parameter, or add a step between them that returns "
            f"{shown_type(takes.type)}"
        )
    names, types = stream.field_names, stream.field_types
    if missing := [name for name in takes.stream.field_names if name not in names]:
        raise TopologyError(
            f"{where}, which has the fields {', '.join(names)}, and takes {shown_type(takes.type)}, which has also "
            f"{', '.join(missing)}: give both the same names"
        )
    for field, wanted in takes.stream.field_types.items():
        if _kind(types[field]) != _kind(wanted):
            raise TopologyError(
                f"{where}, whose field {field!r} has the type {types[field]}, and takes {shown_type(takes.type)}, "
                f"where it is {wanted}: give both the same type"
            )


def _kind(type_: Any) -> str:
    """A type, for comparison: numbers of any width are alike."""
    return {"int": "long", "float": "double"}.get(type_, type_) if isinstance(type_, str) else str(type_)
