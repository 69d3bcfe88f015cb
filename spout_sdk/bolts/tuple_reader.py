"""The records of a bolt's inbox as tuples or columns; what cannot be read is rejected."""

from collections.abc import Callable, Mapping
from itertools import count, repeat
from typing import Any, TypeVar

import numpy as np

from spout_sdk.api.tuples import UNKNOWN_STREAM, InputPack, InputStream, TracedTuple, Tuple
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.records import Record
from tuple_tree.anchors import (
    ANCHOR_COUNTS_HEADER,
    ANCHORS_HEADER,
    PAIR_BYTES,
    SOURCE_HEADER,
    AnchorColumns,
    edges_of_tuples,
    unpack_anchors,
)
from tuple_tree.errors import WireError
from tuple_tree.headers import trace_context
from tuple_tree.ids import unpack_ids
from tuple_tree.manifest import Manifest
from tuple_tree.payloads import payload_codec
from tuple_tree.streams import Values

T = TypeVar("T")
Unpack = Callable[[Any, bytes, InputPack, bytes | None, bytes | None], T]
"""Decodes payload and anchor headers of a record, and sets the size of the `InputPack`; raises `WireError`."""

Reject = Callable[[Tuple, WireError], None]
"""Called with a tuple that cannot be read, and what is wrong; for a record that cannot be read, it has no values."""


class TupleReader:
    """Reads the records of a bolt's inbox, and opens each in `inputs`.

    Args:
        reject: called with what cannot be read; settles the tuple.
    """

    def __init__(self, manifest: Manifest, bolt: str, inputs: InputOffsets, reject: Reject) -> None:
        self._bolt = bolt
        self._is_tracked = manifest.acking
        self._inputs = inputs
        self._reject = reject
        self._streams: dict[Any, InputStream] = {}  # by `source` header
        for subscription in getattr(manifest.component(bolt), "subscriptions", ()):
            source, stream = subscription.source, manifest.stream(subscription.source, subscription.stream)
            input_ = InputStream(source, stream.name, stream.field_names, payload_codec(stream))
            self._streams[f"{source}/{stream.name}".encode()] = input_

    def read(self, record: Record) -> list[Tuple]:
        """The tuples of a record; unreadable ones are rejected and left out."""
        tuples, errors = self._unpacked(record, _tuples) or ([], {})
        for index, error in errors.items():
            self._reject(tuples[index], error)
        return [tuple_ for tuple_ in tuples if tuple_.index not in errors] if errors else tuples

    def read_columns(self, record: Record) -> ArrowInput | None:
        """The tuples of a record, as columns; None if it cannot be read and is rejected."""
        return self._unpacked(record, _columns)

    def _unpacked(self, record: Record, unpack: Unpack[T]) -> T | None:
        offset: int = record.offset()  # type: ignore[assignment]
        headers: Any = record.headers() or ()
        named = dict(headers)  # the last of a name counts
        source = named.pop(SOURCE_HEADER, None)
        anchors, counts = named.pop(ANCHORS_HEADER, None), named.pop(ANCHOR_COUNTS_HEADER, None)
        context = trace_context(headers) if named else []
        if not self._is_tracked:
            anchors = counts = None
        try:
            stream = self._streams.get(source)
            if stream is None and source is None:
                raise WireError("no-source", f"the record has no {SOURCE_HEADER} header")
            if stream is None:
                received = ", ".join(name.decode() for name in self._streams)
                raise WireError("unknown-source", f"{self._bolt} does not receive {source!r}: it receives {received}")
            payload = record.value()
            if payload is None:
                raise WireError("no-payload", "the record has no value")
            pack = InputPack(record, stream, offset, 1, context)
            unpacked = unpack(stream.codec, payload, pack, anchors, counts)
        except WireError as error:
            pack = InputPack(record, UNKNOWN_STREAM, offset, 1, context)
            self._inputs.open(pack)
            # The edges of all its trees, as far as the header can be read.
            edges = unpack_anchors(anchors[: len(anchors) // PAIR_BYTES * PAIR_BYTES]) if anchors else {}
            self._reject(Tuple((), None, 0, edges, pack, 0), error)
            return None
        self._inputs.open(pack)
        return unpacked


def _columns(codec: Any, payload: bytes, pack: InputPack, anchors: bytes | None, counts: bytes | None) -> ArrowInput:
    batch = codec.decode_batch(payload)
    pack.size = pack.left = batch.num_rows
    return ArrowInput.whole(batch, pack, codec, AnchorColumns.read(anchors, counts, batch.num_rows))


def _tuples(
    codec: Any, payload: bytes, pack: InputPack, anchors: bytes | None, counts: bytes | None
) -> tuple[list[Tuple], Mapping[int, WireError]]:
    rows, errors = codec.decode(payload)
    pack.size = pack.left = len(rows)
    return _anchored(rows, anchors, counts, pack), errors


def _anchored(rows: list[Values], anchors: bytes | None, counts: bytes | None, pack: InputPack) -> list[Tuple]:
    made = TracedTuple if pack.trace_context else Tuple
    if not anchors and not (counts and any(counts)):
        return list(map(made, rows, repeat(None), repeat(0), repeat(None), repeat(pack), count()))
    anchors = anchors or b""
    if counts is None and len(anchors) == PAIR_BYTES * len(rows):
        pack.ids = unpack_ids(anchors).astype(np.uint64)
        ids: list[int] = pack.ids.tolist()
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
