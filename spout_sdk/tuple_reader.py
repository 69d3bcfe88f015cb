"""What a bolt's task makes of the records of its inbox: tuples, or the reason why one is none."""

from collections.abc import Callable
from typing import Any

from spout_sdk.records import Record
from spout_sdk.tuples import InputStream, TracedTuple, Tuple
from tuple_tree.anchors import ANCHORS_HEADER, PAIR_BYTES, SOURCE_HEADER, Edges, unpack_anchor, unpack_anchors
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.streams import PayloadCodec, payload_codec
from tuple_tree.trace_context import trace_context

Reject = Callable[[Record, int, Edges, WireError], None]
"""Called with a record that is no tuple, its offset, the edges of the trees that it belongs to, and what is wrong."""


def tuple_reader(
    manifest: Manifest, bolt: str, *, tracked: bool, start: Callable[[int], None], reject: Reject
) -> Callable[[Record], Tuple | None]:
    """Makes what reads the records of a bolt.

    Args:
        manifest: of the topology.
        bolt: whose inbox.
        tracked: whether trees are followed; else no tuple belongs to any.
        start: called with the offset of each record first.
        reject: called with a record that is no tuple.

    Returns:
        A function of a record, which returns its tuple, or None if that was rejected.
    """
    sources = _sources(manifest, bolt)

    # A function and not a method: what it needs is looked up once, and not for each record.
    def read(record: Record) -> Tuple | None:
        offset: int = record.offset()  # type: ignore[assignment]
        start(offset)
        headers: Any = record.headers() or ()
        as_sent = False
        if len(headers) == 2:
            # Other writers may order them as they like, and add their own.
            (first, anchors), (second, source) = headers
            as_sent = first == ANCHORS_HEADER and second == SOURCE_HEADER
        if not as_sent:
            anchors, source = _found(headers)
        root: int | None = None
        edge = 0
        edges: Edges | None = None
        try:
            if anchors and tracked:
                if len(anchors) == PAIR_BYTES:
                    root, edge = unpack_anchor(anchors)
                else:
                    edges = unpack_anchors(anchors)
            known = sources.get(source)
            if known is None:
                raise _unknown(source)
            codec, stream = known
            payload = record.value()
            if payload is None:
                raise WireError("no-payload", "the record has no value")
            if as_sent or not (context := trace_context(headers)):
                return Tuple(codec.decode(payload), root, edge, edges, offset, record, stream)
            return TracedTuple(context, codec.decode(payload), root, edge, edges, offset, record, stream)
        except WireError as error:
            reject(record, offset, edges or ({} if root is None else {root: edge}), error)
            return None

    def _unknown(source: bytes | None) -> WireError:
        if source is None:
            return WireError("no-source", f"the record has no {SOURCE_HEADER} header")
        known = ", ".join(name.decode() for name in sources)
        return WireError("unknown-source", f"{bolt} does not receive {source!r}: it receives {known}")

    return read


def _found(headers: Any) -> tuple[bytes | None, bytes | None]:
    """Anchors and source among any headers; the last of a name counts."""
    anchors = source = None
    for name, value in headers:
        if name == ANCHORS_HEADER:
            anchors = value
        elif name == SOURCE_HEADER:
            source = value
    return anchors, source


def _sources(manifest: Manifest, bolt: str) -> dict[Any, tuple[PayloadCodec, InputStream]]:
    """`source` header → how to read the payload, and what its tuples have in common."""
    sources: dict[Any, tuple[PayloadCodec, InputStream]] = {}
    component = manifest.component(bolt)
    for subscription in getattr(component, "subscriptions", ()):
        stream = manifest.stream(subscription.source, subscription.stream)
        sources[f"{subscription.source}/{stream.name}".encode()] = (
            payload_codec(stream),
            InputStream(subscription.source, stream.name, stream.field_names),
        )
    return sources
