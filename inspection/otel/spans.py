"""Trees in, spans out, by the table in `docs/inspection.md`.

The ids follow from the tree, so a tree that is sent twice has the same spans. A tuple that is in several trees has a
span for each.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import xxhash

from inspection.errors import SpansError
from tuple_tree.headers import TRACEPARENT

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_SEED: Final = 42
_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Span:
    trace_id: int  # of 128 bits, not 0
    span_id: int  # of 64 bits, not 0
    parent_id: int | None  # the span above; None if there is none, or it is not known
    links: tuple[int, ...]  # further parents
    service: str  # the component
    name: str
    is_root: bool  # whether it is the spout's
    start_ns: int  # since the epoch
    end_ns: int  # not before the start
    error: str = ""
    # Names are of OpenTelemetry's conventions for messaging where there are such, else `acker.…`.
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)


def spans_of(printed: Mapping[str, Any]) -> list[Span]:
    """The spans of a line of `acker trace --json`."""
    try:
        topology = str(printed["topology"])
        return [span for tree in printed["trees"] for span in _of_tree(topology, tree)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SpansError(
            f"this is no output of acker trace --json ({type(error).__name__}: {error}): pipe that here"
        ) from error


def _of_tree(topology: str, tree: Mapping[str, Any]) -> Iterator[Span]:
    root = int(tree["root"], 16)
    tuples: Sequence[Mapping[str, Any]] = tree["tuples"]
    if not tuples and tree["began_ms"] is None:
        return
    trace_id, above = _joined(tuples) or (xxhash.xxh64_intdigest(topology.encode(), _SEED) << 64 | root or 1, None)
    times = [each["emitted_ms"] for each in tuples] + [entry["at_ms"] for entry in tree["log"]]
    began_ms = min(times) if tree["began_ms"] is None else tree["began_ms"]
    # One that is open ends with its last known record.
    ended_ms = max([began_ms, *times]) if tree["ended_ms"] is None else tree["ended_ms"]
    first_id = root or 1
    yield Span(
        *(trace_id, first_id, above, (), tree["spout"] or "unknown", f"tree of {tree['spout'] or topology}", True),
        start_ns=began_ms * _NS,
        end_ns=max(began_ms, ended_ms) * _NS,
        error=str(tree["verdict"]) if tree["status"] == "failed" else "",
        attributes={
            "messaging.system": "kafka",
            "acker.topology": topology,
            "acker.root": tree["root"],
            "acker.status": tree["status"],
            "acker.verdict": tree["verdict"],
            "acker.tuples": len(tuples),
        },
    )
    ids = {each["tuple"]: int(each["edge"], 16) for each in tuples}
    for each in tuples:
        yield _of_tuple(topology, tree["root"], trace_id, first_id, each, ids)


def _of_tuple(
    topology: str, root: str, trace_id: int, first_id: int, each: Mapping[str, Any], ids: Mapping[str, int]
) -> Span:
    parents = [ids[parent] for parent in each["parents"]]
    emitted_ms = each["emitted_ms"]
    # Of two clocks: that of the emitter, and that of the broker.
    acked_ms = max([emitted_ms, *(ack["at_ms"] for ack in each["acks"])])
    attributes: dict[str, str | int | bool] = {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.destination.name": f"{topology}.tuples.{each['bolt']}",
        "messaging.destination.partition.id": str(each["task"]),
        "messaging.kafka.offset": each["offset"],
        "acker.topology": topology,
        "acker.root": root,
        "acker.source": f"{each['source']}/{each['stream']}",
        "acker.state": each["state"],
        "acker.parents": each["parents_are"],
        "acker.executions": len(each["acks"]),
        "acker.preview": each["preview"],
    }
    above, *links = parents or [first_id]
    return Span(
        *(trace_id, ids[each["tuple"]], above, tuple(links), each["bolt"], f"{each['bolt']} process", False),
        start_ns=emitted_ms * _NS,
        end_ns=acked_ms * _NS,
        attributes=attributes,
    )


def _joined(tuples: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    """The trace and the span in the `traceparent` of the spout's tuples; None if there is none."""
    for each in (one for one in tuples if not one["parents"]):
        match = _TRACEPARENT.fullmatch(each.get(TRACEPARENT) or "")
        if match and int(match[1], 16) and int(match[2], 16):
            return int(match[1], 16), int(match[2], 16)
    return None
