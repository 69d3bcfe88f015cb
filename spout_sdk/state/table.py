"""The values of a task's keys: the values in the store, and the changes of the open transaction."""

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import Any, Final

from spout_sdk.errors import StateError
from spout_sdk.state.stores import Changes, Store
from tuple_tree.components import StateManifest
from tuple_tree.state_fields import number_check
from tuple_tree.state_records import ValueCodec, as_text

LARGEST_VALUE: Final = 900_000
"""Largest size of a key and its encoded value in bytes: by default a producer accepts records of up to a megabyte."""
_SHORT_KEY: Final = 1_000
_MOST_DECODED: Final = 100_000
"""Largest number of values that are kept decoded; the store has all values, encoded."""
_ABSENT: Final = object()
_LATER: Final = b""
"""Stands for the payload of numbers, which is short and is encoded only when the transaction ends."""
_PLAIN: Final = frozenset({"string", "bytes", "int", "long", "float", "double", "boolean", "null"})


class StateTable:
    """The values of a task, by the bytes of a key.

    Args:
        initial: the value of a key that has none.

    Attributes:
        copied: copies a value, so that the user may change it; None if values are immutable, or are decoded each time.
    """

    def __init__(self, store: Store, manifest: StateManifest, initial: Any) -> None:
        self._store = store
        self._codec = ValueCodec.of(manifest)
        self._initial = self._codec.initial() if initial is None else initial
        self._encode = self._codec.encode
        is_json = manifest.value.codec == "json"
        self._fits = number_check(manifest.value.fields, is_single=manifest.is_single) if is_json else None
        # Values with lists, maps or records are decoded for each call, because a deep copy would take longer.
        self._is_nested = any(not isinstance(f.type, str) or f.type not in _PLAIN for f in manifest.value.fields)
        self.copied = None if manifest.is_single or self._is_nested else self._copied
        self._values: dict[bytes, Any] = {}  # decoded, unless nested; None where a key has no value
        self._changed: dict[bytes, bytes | None] = {}  # encoded; None where a key is deleted

    def get(self, key: bytes) -> Any:
        """The value of a key, or the initial value; a copy that the caller may change."""
        value = self._values.get(key, _ABSENT)
        if value is _ABSENT:
            value = self._read(key)
        if value is None:
            return deepcopy(self._initial) if self._is_nested else copy(self._initial)
        return value if self.copied is None else self.copied(value)

    def current(self, key: bytes) -> Any:
        """A copy of the current value of a key; None if it has none."""
        value = self._values.get(key, _ABSENT)
        if value is _ABSENT:
            value = self._read(key)
        return value if value is None or self.copied is None else self.copied(value)

    def encoded(self, key: bytes, value: Any) -> bytes | None:
        """Encodes a new value of a key as the payload for `set`; None deletes the key.

        Raises:
            StateError: if the value does not fit the state, or is too large for a record.
        """
        if self._fits is not None and self._fits(value):
            return _LATER
        if value is None:
            return None
        try:
            payload = self._encode(value)
        except TypeError as error:
            raise StateError(f"the new value of key {as_text(key)} does not fit the state: {error}") from None
        if len(payload) + len(key) > LARGEST_VALUE:
            with_key = f", and the key {len(key):,}" if len(key) > _SHORT_KEY else ""
            raise StateError(
                f"the value of key {as_text(key)} has {len(payload):,} bytes{with_key}, and both may have "
                f"{LARGEST_VALUE:,}, to fit into a record of the changelog: keep less for a key, or spread it over "
                "several keys"
            )
        return payload

    def set(self, key: bytes, value: Any, payload: bytes | None) -> bool:
        """Changes the value of a key in the open transaction; None deletes the key.

        Returns whether the value differs from before: an equal value is not written. The table keeps the value object:
        if the user may still change it, pass a copy made by `copied`.

        Args:
            key: the encoded key.
            value: the new value.
            payload: the result of `encoded` for the value.
        """
        if self._is_nested:
            if self._encoded(key) == payload:
                return False
        elif self._values.get(key, _ABSENT) == value:
            return False
        else:
            self._values[key] = value
        self._changed[key] = payload
        return True

    @property
    def has_changes(self) -> bool:
        """Whether the open transaction changes any value."""
        return bool(self._changed)

    @property
    def changes(self) -> Mapping[bytes, bytes | None]:
        """The changed keys of the open transaction, with their current payloads; None for deleted keys."""
        values, encode = self._values, self._encode
        return {key: encode(values[key]) if made is _LATER else made for key, made in self._changed.items()}

    def committed(self, changes: Changes, position: int | None) -> None:
        """Applies the changes of a committed transaction, including the SDK's, to the store; see `Store.apply`."""
        self._store.apply(changes, position)
        self._changed = {}
        if len(self._values) > _MOST_DECODED:
            self._values.clear()

    def _read(self, key: bytes) -> Any:
        encoded = self._encoded(key)
        value = None if encoded is None else self._codec.decode(encoded)
        if not self._is_nested:
            self._values[key] = value
        return value

    def _encoded(self, key: bytes) -> bytes | None:
        return self._changed[key] if key in self._changed else self._store.get(key)

    def _copied(self, value: Any) -> Any:
        return value.copy() if value.__class__ is dict else {name: value[name] for name in self._codec.names}
