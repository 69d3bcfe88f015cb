"""What a bolt's task makes of the records of its inbox: tuples, or the reason why one is none."""

from collections.abc import Callable, Mapping
from itertools import count, repeat
from typing import Any

from spout_sdk.input_offsets import InputOffsets
from spout_sdk.records import Headers, Record
from spout_sdk.tuples import InputPack, InputStream, TracedTuple, Tuple
from tuple_tree.anchors import (
    ANCHOR_COUNTS_HEADER,
    ANCHORS_HEADER,
    PAIR_BYTES,
    SOURCE_HEADER,
    Edges,
    edges_of_tuples,
    unpack_anchors,
)
from tuple_tree.errors import WireError
from tuple_tree.ids import unpack_ids
from tuple_tree.manifest import Manifest
from tuple_tree.payloads import PayloadCodec, payload_codec
from tuple_tree.streams import Values
from tuple_tree.trace_context import trace_context

Reject = Callable[[Record, Tuple | None, Edges, WireError], None]
"""Called with a record that cannot be read, or the one of its tuples; its edges; and what is wrong."""


class TupleReader:
    """Reads the records of a bolt's inbox.

    Args:
        manifest: of the topology.
        bolt: whose inbox.
        inputs: where the offset of each record is opened, to be settled once for each tuple.
        reject: called with what cannot be read; it settles the offset, too.
    """

    def __init__(self, manifest: Manifest, bolt: str, inputs: InputOffsets, reject: Reject) -> None:
        self._bolt = bolt
        self._is_tracked = manifest.acking
        self._inputs = inputs
        self._reject = reject
        self._sources = _sources(manifest, bolt)

    def read(self, record: Record) -> list[Tuple]:
        """The tuples of a record; without those that cannot be read, which are rejected."""
        offset: int = record.offset()  # type: ignore[assignment]
        self._inputs.start(offset)
        anchors = counts = source = None
        context: Headers = []
        headers: Any = record.headers() or ()
        for name, value in headers:  # the last of a name counts
            if name == ANCHORS_HEADER:
                anchors = value
            elif name == SOURCE_HEADER:
                source = value
            elif name == ANCHOR_COUNTS_HEADER:
                counts = value
            else:
                context = context or trace_context(headers)
        if not self._is_tracked:
            anchors = counts = None
        try:
            known = self._sources.get(source)
            if known is None:
                raise self._unknown(source)
            codec, stream = known
            payload = record.value()
            if payload is None:
                raise WireError("no-payload", "the record has no value")
            rows, errors = codec.decode(payload)
            pack = InputPack(record, stream, offset, len(rows), context)
            tuples = _tuples(rows, anchors, counts, pack)
        except WireError as error:
            self._reject(record, None, _all_edges(anchors), error)
            return []
        if len(rows) > 1:
            self._inputs.expect(offset, len(rows) - 1)
        return self._readable(tuples, errors) if errors else tuples

    def _readable(self, tuples: list[Tuple], errors: Mapping[int, WireError]) -> list[Tuple]:
        for index, error in errors.items():
            rejected = tuples[index]
            self._reject(rejected.record, rejected, rejected.edges, error)
        return [tuple_ for tuple_ in tuples if tuple_.index not in errors]

    def _unknown(self, source: bytes | None) -> WireError:
        if source is None:
            return WireError("no-source", f"the record has no {SOURCE_HEADER} header")
        known = ", ".join(name.decode() for name in self._sources)
        return WireError("unknown-source", f"{self._bolt} does not receive {source!r}: it receives {known}")


def _tuples(rows: list[Values], anchors: bytes | None, counts: bytes | None, pack: InputPack) -> list[Tuple]:
    made = TracedTuple if pack.trace_context else Tuple
    if not anchors and not (counts and any(counts)):
        return list(map(made, rows, repeat(None), repeat(0), repeat(None), repeat(pack), count()))
    anchors = anchors or b""
    if counts is None and len(anchors) == PAIR_BYTES * len(rows):
        ids: list[int] = unpack_ids(anchors).tolist()
        return list(map(made, rows, ids[::2], ids[1::2], repeat(None), repeat(pack), count()))
    tuples = []
    each = edges_of_tuples(anchors, counts)
    if len(each) != len(rows):
        raise WireError("ragged-anchors", f"the headers have anchors for {len(each)} tuples, and there are {len(rows)}")
    for index, (row, edges) in enumerate(zip(rows, each, strict=True)):
        if len(edges) > 1:
            tuples.append(made(row, None, 0, edges, pack, index))
        else:
            root, edge = next(iter(edges.items()), (None, 0))
            tuples.append(made(row, root, edge, None, pack, index))
    return tuples


def _all_edges(anchors: bytes | None) -> Edges:
    """The edges of all trees that a record belongs to, as far as its header can be read."""
    return unpack_anchors(anchors[: len(anchors) // PAIR_BYTES * PAIR_BYTES]) if anchors else {}


def _sources(manifest: Manifest, bolt: str) -> dict[Any, tuple[PayloadCodec, InputStream]]:
    """`source` header → how to read the payload, and what its tuples have in common."""
    sources: dict[Any, tuple[PayloadCodec, InputStream]] = {}
    component = manifest.component(bolt)
    for subscription in getattr(component, "subscriptions", ()):
        stream = manifest.stream(subscription.source, subscription.stream)
        codec = payload_codec(stream)
        input_ = InputStream(subscription.source, stream.name, stream.field_names, codec)
        sources[f"{subscription.source}/{stream.name}".encode()] = codec, input_
    return sources
