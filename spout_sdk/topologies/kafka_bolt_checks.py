"""Checks that the streams that a `KafkaBolt` receives have the fields of its records."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spout_sdk.bolts.kafka_bolt import KafkaBolt
from spout_sdk.errors import TopologyError
from tuple_tree.manifest import Manifest
from tuple_tree.streams import Stream

_NUMBERS: Final = ("int", "long", "float", "double", "boolean")


def check_kafka_bolts(manifest: Manifest, made: Mapping[str, Any]) -> None:
    """Raises `TopologyError` if a record of a `KafkaBolt` cannot be made of the tuples that it receives."""
    for bolt in manifest.bolts:
        if not isinstance(kafka_bolt := made.get(bolt.name), KafkaBolt):
            continue
        for each in bolt.subscriptions:
            stream = manifest.stream(each.source, each.stream)
            _check(bolt.name, kafka_bolt, stream, f"{each.source}/{stream.name}")


def _check(name: str, bolt: KafkaBolt, stream: Stream, where: str) -> None:
    types = {field.name: field.type for field in stream.fields}
    for part, field in _fields(bolt):
        if field not in types:
            raise TopologyError(
                f"bolt {name!r} is a KafkaBolt with the {part} {field!r}, but stream {where} has the fields "
                f"{', '.join(types)}: name one of them, or pass a function of the tuple"
            )
        if part != "value" and types[field] in _NUMBERS:
            raise TopologyError(
                f"bolt {name!r} is a KafkaBolt with the {part} {field!r}, whose type in stream {where} is "
                f"{types[field]}, and a {part} is text or bytes: pass a function, such as "
                f"lambda tuple_: str(tuple_[{field!r}])"
            )


def _fields(bolt: KafkaBolt) -> Iterator[tuple[str, str]]:
    """The fields that records are made of, each with its part: key, header or value."""
    if isinstance(bolt.key, str):
        yield "key", bolt.key
    for header in bolt.headers.values():
        if isinstance(header, str):
            yield "header", header
    if isinstance(bolt.value, str):  # of codec bytes
        yield "value", bolt.value
    elif bolt.value is not None and not callable(bolt.value):
        for field in bolt.value:
            yield "value", field
