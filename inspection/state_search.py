"""A key of a state, read from its changelog, and entries as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inspection.errors import StateKeyError, StateKeyNotFoundError
from kafka_clients.log_reader import Progress
from spout_sdk.errors import StateError
from spout_sdk.state import StateEntry, StateView


def find_key(
    topology: str, bolt: str, kafka: Mapping[str, Any], key: Sequence[str], progress: Progress
) -> tuple[Sequence[str], StateEntry]:
    """The names of the fields of a key, and its entry, given a text for each; it reads the partition that has the key.

    Raises:
        StateKeyError: if the texts are not a key of the state, or its changelog cannot be used.
        StateKeyNotFoundError: if the state has no such key.
        BrokerError: if it cannot be read.
    """
    try:
        with StateView(topology, bolt, kafka, progress=progress) as view:
            entry = view.search(view.keys.parse(key))
    except (TypeError, StateError) as error:
        raise StateKeyError(str(error)) from error
    if entry is None:
        raise StateKeyNotFoundError(
            f"{view.topic} has no key {' '.join(key)}: acker state list {topology} {bolt} prints what it has"
        )
    return view.key_fields, entry


def entry_as_json(key_fields: Sequence[str], entry: StateEntry) -> dict[str, Any]:
    """An entry; values that JSON has no type for are left as they are, for `as_text`."""
    key = dict(zip(key_fields, entry.key, strict=True))
    return {"key": key, "value": entry.value, "task": entry.task, "changed_ms": entry.changed_ms}


def plain(value: Any) -> Any:
    """The value with types of JSON only: other types, and NaN and infinity, become text."""
    return json.loads(json.dumps(value, default=as_text), parse_constant=str)


def as_text(value: Any) -> str:
    """A value that JSON has no type for; also a value of a key as `KeyCodec.parse` reads it."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
