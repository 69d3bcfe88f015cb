"""Records of the changelog of a state: their keys and values, and the record that describes the changelog."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import fastavro
from pydantic import BaseModel, ConfigDict, ValidationError

from tuple_tree.components import BoltManifest, StateManifest
from tuple_tree.errors import StateRecordError, VersionError
from tuple_tree.fields import Column, all_fit, avro_body, read_avro_body
from tuple_tree.manifest import Manifest
from tuple_tree.routing import SEPARATOR, fields_task, grouping_key
from tuple_tree.state_fields import JSON, ValueField, quick_writer, type_name
from tuple_tree.state_fields import as_text as as_text
from tuple_tree.state_zeros import zero_of
from tuple_tree.streams import Field, StreamDeclaration, Values, explain

SYSTEM_PREFIX: Final = b"\xff\x00acker.state/"
"""The beginning of the keys of records of the SDK, which no key of a state has."""
ABOUT_KEY: Final = SYSTEM_PREFIX + b"about"
ABOUT_VERSION: Final = 1
_BOOLEANS: Final = {b"true": True, b"false": False}


class KeyCodec:
    """Turns the values of a key into the `grouping_key` of them, and back.

    Args:
        fields: of the key, with their Avro types; raises `ValueError` for a type that has no such form.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self.names = tuple(field.name for field in fields)
        self._types = [(field.name, *_key_type(field)) for field in fields]
        self._columns = [Column(field.name, field.type) for field in fields]
        self.is_text = len(fields) == 1 and self._types[0][1:] == ("string", False)

    def encode(self, values: Sequence[Any]) -> bytes:
        """The key of these values, as many as there are fields. Raises `TypeError` for a key that cannot be stored."""
        # The common case, spelled out: UTF-8 never begins as the keys of the SDK do.
        if self.is_text and len(values) == 1 and values[0].__class__ is str and values[0].isascii():
            return values[0].encode()
        if len(values) != len(self.names):
            raise TypeError(f"a key is one value for each field ({', '.join(self.names)}), not {len(values)}")
        checked = [self._checked(column, value) for column, value in zip(self._columns, values, strict=True)]
        key = grouping_key(checked)
        if key.startswith(SYSTEM_PREFIX):
            raise TypeError(f"the key {as_text(key)} begins as the keys of the SDK's own records: use another one")
        if len(checked) > 1 and key.count(SEPARATOR) != len(checked) - 1:
            raise TypeError(
                f"the key {as_text(key)} has the byte 0x1f within a value, which separates the values of fields: "
                "remove it, or group by one field"
            )
        return key

    def decode(self, key: bytes) -> Values:
        """The values of a key; an empty part is null. Raises `StateRecordError` if the bytes are not a key."""
        parts = key.split(SEPARATOR) if len(self._types) > 1 else [key] * len(self._types)
        if len(parts) != len(self._types):
            raise StateRecordError(
                f"the key {as_text(key)} has {len(parts)} values, and the state has {', '.join(self.names)}"
            )
        try:
            return tuple(
                _key_value(part, kind, is_nullable)
                for part, (_, kind, is_nullable) in zip(parts, self._types, strict=True)
            )
        except (ValueError, KeyError) as error:
            declared = ", ".join(f"{name}: {kind}" for name, kind, _ in self._types)
            raise StateRecordError(f"the key {as_text(key)} is not of the fields {declared}") from error

    def shown(self, key: bytes) -> Any:
        """The key as users have it: the value of its only field, else a tuple of the values."""
        values = self.decode(key)
        return values[0] if len(values) == 1 else values

    def of(self, shown: Any) -> bytes:
        """The bytes of a key as users have it. Raises `TypeError` for a key that cannot be stored."""
        return self.encode((shown,) if len(self.names) == 1 else shown)

    def parse(self, texts: Sequence[str]) -> bytes:
        """The key of values that are written as text, a text for each field; bytes as text, or as 0x and hexadecimal.

        Raises `TypeError` if they are not of the fields.
        """
        if len(texts) != len(self.names):
            raise TypeError(f"a key is one value for each field ({', '.join(self.names)}), not {len(texts)}")
        parts = [
            bytes.fromhex(text[2:]) if kind == "bytes" and text.startswith("0x") else text.encode()
            for text, (_, kind, _) in zip(texts, self._types, strict=True)
        ]
        key = SEPARATOR.join(parts)
        try:
            return self.encode(self.decode(key))
        except StateRecordError as error:
            raise TypeError(error.detail) from error

    def _checked(self, column: Column, value: Any) -> Any:
        try:
            return column.checked(value)
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise TypeError(f"the key's {error}") from error


class ValueCodec:
    """Turns values of a state into payloads, and back.

    A value is a mapping with the declared fields, or the value of the one field alone if the state `is_single`.

    """

    def __init__(self, stream: StreamDeclaration, *, is_single: bool = False) -> None:
        self.names = stream.field_names
        self.is_single = is_single
        self._types = stream.field_types
        self._fields = [ValueField(name, kind, stream.codec) for name, kind in self._types.items()]
        self._declared = ", ".join(f"{name}: {type_name(kind)}" for name, kind in self._types.items())
        self._is_json = stream.codec == "json"
        self._zeros = {name: zero_of(kind) for name, kind in self._types.items()}
        self._schema: Any = None
        if not self._is_json:
            alone = next(iter(self._types.values()))
            self._schema = fastavro.parse_schema(alone if is_single else stream.avro_schema())
        # Whether values are written as they are.
        self._fits = all_fit([Column(name, kind) for name, kind in self._types.items()])
        self._quick = quick_writer(stream.fields, is_single=is_single) if self._is_json else None

    @classmethod
    def of(cls, state: StateManifest) -> "ValueCodec":
        return cls(state.value, is_single=state.is_single)

    def initial(self) -> Any:
        """A value of zeros, empty texts and collections; null where it is allowed."""
        values = {name: zero() for name, zero in self._zeros.items()}
        return values[self.names[0]] if self.is_single else values

    def encode(self, value: Any) -> bytes:
        """The payload of a value. Raises `TypeError` if it does not fit; the message names the field."""
        row, quick = (value,) if self.is_single else self._row(value), self._quick
        if quick is not None and (text := quick(row)) is not None:
            return text.encode()
        return self.encode_row(row)

    def encode_row(self, row: Values) -> bytes:
        """The payload of a value, given the values of its fields, in order; raises as `encode`."""
        if self._quick is not None and (text := self._quick(row)) is not None:
            return text.encode()
        if self._is_json or not self._fits(row):
            row = tuple(field.checked(value) for field, value in zip(self._fields, row, strict=True))
        value = row[0] if self.is_single else dict(zip(self.names, row, strict=True))
        if self._is_json:
            return JSON.encode(value).encode()
        return avro_body(self._schema, value)

    def decode(self, payload: bytes) -> Any:
        """The value of a payload. Raises `StateRecordError` if it is not a value of this state."""
        try:
            value = json.loads(payload) if self._is_json else read_avro_body(self._schema, payload)
            return value if self.is_single else {name: value[name] for name in self.names}
        except Exception as error:  # fastavro raises EOFError, ValueError, IndexError and more
            codec = "JSON" if self._is_json else "Avro"
            raise StateRecordError(
                f"the value {as_text(payload)} is not {codec} with the fields {self._declared}: {error!r}"
            ) from error

    def _row(self, value: Any) -> Values:
        try:
            if len(value) == len(self.names):
                return tuple(value[name] for name in self.names)
        except (TypeError, KeyError, IndexError):
            pass
        if not isinstance(value, Mapping):
            raise TypeError(
                f"a value of the state is a mapping with the fields {self._declared}, not {type(value).__name__}"
            )
        lacking = [name for name in self.names if name not in value]
        extra = [str(name) for name in value if name not in self.names]
        problem = f"lacks the field {lacking[0]!r}" if lacking else f"has the unknown field {extra[0]!r}"
        raise TypeError(f"a value of the state {problem}: declared are {self._declared}")


class _About(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    version: int
    topology: str
    bolt: str
    key: tuple[Field, ...]
    value: StreamDeclaration
    is_single: bool
    sources: dict[str, dict[str, str]] = {}
    spouts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class About:
    """The description of a changelog: the record with the key `ABOUT_KEY` in each of its partitions.

    Attributes:
        bolt: the bolt whose state it is.
        sources: by `KafkaSpout` whose messages reach the state: topic → its id, in the order in which the spout names
            them. Positions are of these.
        spouts: all spouts of the topology, in order: a position has the index of its spout.
    """

    topology: str
    bolt: str
    key: tuple[Field, ...]
    value: StreamDeclaration
    is_single: bool
    sources: Mapping[str, Mapping[str, str]]
    spouts: tuple[str, ...] = ()

    @classmethod
    def of(cls, manifest: Manifest, bolt: str, sources: Mapping[str, Mapping[str, str]] | None = None) -> "About":
        """The declared state of a bolt. Raises `ValueError` if it has none."""
        state = state_of(manifest, bolt)
        spouts = tuple(spout.name for spout in manifest.spouts)
        return cls(manifest.topology, bolt, state.key, state.value, state.is_single, sources or {}, spouts)

    def to_json(self) -> bytes:
        parts = {name: getattr(self, name) for name in self.__slots__}
        return _About(version=ABOUT_VERSION, **parts).model_dump_json().encode()

    @classmethod
    def from_json(cls, value: bytes | None) -> "About":
        """Reads it. Raises `VersionError` if a later version wrote it, `StateRecordError` if it cannot be read."""
        try:
            version = json.loads(value or b"")["version"]
            if version != ABOUT_VERSION:
                raise VersionError(f"the changelog is of version {version}, and this is version {ABOUT_VERSION}")
            read = _About.model_validate_json(value or b"")
        except ValidationError as error:
            raise StateRecordError(explain(error)) from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StateRecordError(f"{as_text(value or b'')} describes no changelog: {error!r}") from error
        return cls(**{name: getattr(read, name) for name in cls.__slots__})

    def difference(self, wanted: "About") -> str:
        """How it differs from the wanted one, but for sources, as a sentence; empty if it does not."""
        if (self.topology, self.bolt) != (wanted.topology, wanted.bolt):
            return f"it is of bolt {self.bolt!r} of topology {self.topology!r}"
        if self.key != wanted.key:
            return f"its keys are {_fields(self.key)}, and the manifest has {_fields(wanted.key)}"
        found, declared = ((each.is_single, each.value.codec, each.value.fields) for each in (self, wanted))
        if found != declared:
            return f"its values are {_value(self)}, and the manifest has {_value(wanted)}"
        return ""

    def changed_sources(self, wanted: "About") -> dict[str, tuple[str, str]]:
        """The spouts whose positions in the changelog are of other messages now: a topic of each, and how it changed.

        A position has the index of a spout, the number of a partition, which follows from the topics of the spout and
        their order, and an offset.
        """
        before, now, changed = self._topics_by_index(), wanted._topics_by_index(), {}
        for index in sorted(before.keys() & now.keys()):
            had, has = before[index], now[index]
            for topic, id_ in had.items():
                if has.get(topic, id_) != id_:
                    problem = f"was deleted and created again: its id was {id_}, and is {has[topic]}"
                    changed[wanted.spouts[index]] = topic, problem
                    break
            else:
                if [*had] != [*has]:
                    read, reads = ", ".join(had), ", ".join(has)
                    problem = (
                        f"is read by spout number {index} of the topology, which reads {reads}: it read {read} before"
                    )
                    changed[wanted.spouts[index]] = next(iter(has)), problem
        return changed

    def _topics_by_index(self) -> dict[int, Mapping[str, str]]:
        return {self.spouts.index(spout): topics for spout, topics in self.sources.items() if spout in self.spouts}


def state_of(manifest: Manifest, bolt: str) -> StateManifest:
    """The state of a bolt. Raises `ValueError` if it has none, naming the bolts that have one."""
    component = manifest.component(bolt)
    if isinstance(component, BoltManifest) and component.state is not None:
        return component.state
    having = ", ".join(each.name for each in manifest.bolts if each.state is not None) or "no bolt"
    raise ValueError(f"{bolt!r} of topology {manifest.topology!r} has no state: {having} has one")


def task_of(state: StateManifest, key: bytes, tasks: int) -> int:
    """The task that has a key, one of `tasks`: that of its fields grouping, to which the start of a window is added."""
    return fields_task(key if state.windows is None else key.rpartition(SEPARATOR)[0], tasks)


def is_system(key: bytes) -> bool:
    return key.startswith(SYSTEM_PREFIX)


def _key_type(field: Field) -> tuple[str, bool]:
    """The type of a key's field, and whether it may be null."""
    kind, is_nullable = field.type, False
    if isinstance(kind, list) and len(kind) == 2 and "null" in kind:
        kind, is_nullable = next(each for each in kind if each != "null"), True
    name = kind.get("type") if isinstance(kind, dict) and "logicalType" not in kind else kind
    if name == "enum":
        name = "string"
    elif name == "fixed":
        name = "bytes"
    if name not in ("string", "bytes", "int", "long", "boolean"):
        raise ValueError(
            f"the key of a state has the field {field.name!r} of type {field.type}: it must be text, bytes, an "
            "integer, a boolean, or one of these or null"
        )
    return name, is_nullable


def _key_value(part: bytes, kind: str, is_nullable: bool) -> Any:
    if not part and is_nullable:
        return None
    if kind == "string":
        return part.decode()
    if kind == "bytes":
        return part
    return _BOOLEANS[part] if kind == "boolean" else int(part)


def _fields(fields: Sequence[Field]) -> str:
    return ", ".join(f"{field.name}: {type_name(field.type)}" for field in fields)


def _value(about: About) -> str:
    return f"{'one value, ' if about.is_single else ''}{_fields(about.value.fields)} ({about.value.codec})"
