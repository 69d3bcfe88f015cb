"""Compares what bolts need with their options, the guarantee of the topology, and the streams that they receive."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka_clients.client_settings import SESSION_MS
from spout_sdk.api.needs import Needs, needs_of
from spout_sdk.api.topology import BoltOptions
from spout_sdk.errors import TopologyError
from spout_sdk.kafka.kafka_settings import TRANSACTION_MS
from spout_sdk.operators.kafka_bolt import KafkaBolt
from spout_sdk.topologies.component_checks import BOLTS
from tuple_tree.components import BoltManifest
from tuple_tree.manifest import Manifest
from tuple_tree.streams import StreamDeclaration

_GROUPABLE: Final = frozenset({"string", "bytes", "int", "long", "boolean", "null", "enum", "fixed"})
_NUMBERS: Final = ("int", "long", "float", "double", "boolean")
_ANSWERING: Final = ", ".join(kind.__name__ for kind in BOLTS if kind.needs.answers)
# Time for a broker, which checks for transaction timeouts every few seconds, and for a process to start.
_MARGIN_MS: Final = 7_000


def check_needs(manifest: Manifest, made: Mapping[str, Any], options: Mapping[str, BoltOptions]) -> None:
    """Raises `TopologyError` for a need that is not met.

    Args:
        made: component → its class or an instance; None if it is external.
        options: bolt → its options.
    """
    if manifest.guarantee == "exactly_once":
        _check_exactly_once(manifest)
    for bolt in manifest.bolts:
        _check_groupable(manifest, bolt)
        of, needs = made[bolt.name], needs_of(made[bolt.name])
        interval = options[bolt.name].tick_interval or getattr(of, "tick_interval", None)
        if interval is not None and not needs.ticks:
            raise TopologyError(
                f"bolt {bolt.name!r} is {needs.kind}, which has no tick tuples: leave tick_interval out, or use a Bolt"
            )
        if bolt.answers:
            _check_answers(manifest, bolt, needs, made)
        if needs.windows and not manifest.acking:
            raise TopologyError(
                f"bolt {bolt.name!r} is {needs.kind}, whose windows close when messages are done, which is not known "
                'with at_most_once: build the topology with guarantee="at_least_once" or "exactly_once"'
            )
        received = [(each.source, manifest.stream(each.source, each.stream)) for each in bolt.subscriptions]
        for component, stream in received:
            if needs.writes:
                _check_record(bolt.name, of, stream, f"{component}/{stream.name}")
        for component, stream in [*received, *((bolt.name, each) for each in bolt.streams)] if needs.columns else ():
            if stream.codec != "arrow":
                raise TopologyError(
                    f"bolt {bolt.name!r} is {needs.kind}, which takes and emits streams of codec arrow, and stream "
                    f"{stream.name!r} of {component!r} has codec {stream.codec!r}: leave codec= out in declare(), or "
                    "use a BatchBolt"
                )


def _check_answers(manifest: Manifest, bolt: BoltManifest, needs: Needs, made: Mapping[str, Any]) -> None:
    if not needs.answers:
        raise TopologyError(
            f"bolt {bolt.name!r} has answers = True, but its collector has no answer(): derive it from {_ANSWERING}"
        )
    if not manifest.acking:
        raise TopologyError(
            f'bolt {bolt.name!r} answers, but guarantee="at_most_once" follows no trees, so no message has an outcome: '
            "use at_least_once or exactly_once, or remove answers"
        )
    if not any(needs_of(made[spout.name]).positions for spout in manifest.spouts_upstream(bolt.name)):
        raise TopologyError(
            f"bolt {bolt.name!r} answers, but receives nothing from a KafkaSpout: only the messages of such spouts can "
            "be answered. Add one, or remove answers"
        )


def _check_record(name: str, bolt: KafkaBolt, stream: StreamDeclaration, where: str) -> None:
    """Checks that a stream has the fields that the records of a bolt are made of, with types that fit."""
    types = stream.field_types
    for part, field in _record_fields(bolt):
        if field not in types:
            raise TopologyError(
                f"bolt {name!r} is a KafkaBolt with the {part} {field!r}, but stream {where} has the fields "
                f"{', '.join(types)}: name one of them, or pass a function of the tuple"
            )
        if part != "value" and types[field] in _NUMBERS:
            raise TopologyError(
                f"bolt {name!r} is a KafkaBolt with the {part} {field!r}, whose type in stream {where} is "
                f"{types[field]}, and a {part} is text or bytes: pass a function, such as "
                f"{getattr(bolt, 'str_of', 'lambda tuple_: str(tuple_[{!r}])').format(field)}"
            )


def _record_fields(bolt: KafkaBolt) -> Iterator[tuple[str, str]]:
    """The fields that records are made of, each with its part: key, header or value."""
    for part, of in ("key", bolt.key), *(("header", each) for each in bolt.headers.values()), ("value", bolt.value):
        if isinstance(of, str):  # as a value: of codec bytes
            yield part, of
        elif of is not None and not callable(of):
            yield from ((part, field) for field in of)


def _check_exactly_once(manifest: Manifest) -> None:
    """Rejects short message timeouts, and an external bolt that is not the last."""
    least_ms = SESSION_MS + TRANSACTION_MS + _MARGIN_MS
    for spout in manifest.spouts:
        if spout.timeout_ms < least_ms:
            raise TopologyError(
                f"the message timeout of spout {spout.name!r} is {spout.timeout_ms / 1000:g} s: with exactly_once it "
                f"must be at least {least_ms / 1000:g} s. When a bolt's process dies, it takes its group up "
                f"to {SESSION_MS / 1000:g} s to notice, and its transaction up to {TRANSACTION_MS / 1000:g} s to time "
                "out; a tree that fails meanwhile is replayed, and its outputs are duplicated"
            )
    for bolt in manifest.bolts:
        receivers = [each.name for each in manifest.bolts if any(s.source == bolt.name for s in each.subscriptions)]
        if bolt.external and receivers:
            raise TopologyError(
                f"bolt {bolt.name!r} does not run in this SDK, and Spark writes duplicates after a failure: with "
                f"exactly_once it cannot emit to {', '.join(receivers)}. Make it the last bolt, or build the topology "
                'with guarantee="at_least_once"'
            )


def _is_groupable(type_: Any) -> bool:
    if isinstance(type_, (list, tuple)):
        return all(map(_is_groupable, type_))
    if isinstance(type_, Mapping):
        return "logicalType" not in type_ and _is_groupable(type_["type"])
    return type_ in _GROUPABLE


def _check_groupable(manifest: Manifest, bolt: BoltManifest) -> None:
    """Rejects groupings by fields whose values are not encoded alike in every language."""
    for subscription in bolt.subscriptions:
        for field in manifest.stream(subscription.source, subscription.stream).fields:
            if field.name in subscription.fields and not _is_groupable(field.type):
                raise TopologyError(
                    f"bolt {bolt.name!r} groups {subscription.source!r} by {field.name!r}, whose type is {field.type}: "
                    "group by text, bytes, an integer, a boolean, or one of these or null"
                )
