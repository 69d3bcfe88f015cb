"""Reads the records of a bolt's inbox as tuples or columns, and rejects unreadable ones."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spout_sdk.api.tuples import NO_TREES, UNKNOWN_STREAM, InputPack, InputStream, Tuple
from spout_sdk.bolts.input_rows import ArrowInput, InputRows
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.records import Headers, Record
from tuple_tree.anchors import (
    ANCHOR_COUNTS_HEADER,
    ANCHORS_HEADER,
    SOURCE_HEADER,
    AnchorColumns,
    readable_roots,
)
from tuple_tree.errors import WireError
from tuple_tree.headers import trace_context
from tuple_tree.identities import IDENTITIES_HEADER, IdentityColumns, source_hash
from tuple_tree.input_batch import MOST_PLACES, InputBatch
from tuple_tree.manifest import Manifest
from tuple_tree.payloads import payload_codec

Reject = Callable[[Tuple, WireError], None]
"""Called with a tuple that cannot be read, and the error; if the whole record is unreadable, it has no values."""


class _Headers(NamedTuple):
    """The headers of a record that concern its tuples; the anchors are None if trees are not tracked."""

    source: bytes | None
    anchors: bytes | None
    counts: bytes | None
    identities: bytes | None  # None if they are not needed
    trace_context: Headers


class TupleReader:
    """Reads the records of a bolt's inbox, and opens each in `inputs`.

    Args:
        reject: called with each tuple that cannot be read; settles it.
    """

    def __init__(self, manifest: Manifest, bolt: str, inputs: InputOffsets, reject: Reject) -> None:
        self._bolt = bolt
        self._is_tracked = manifest.acking
        self._is_identified = manifest.is_identified(bolt)
        self._inputs = inputs
        self._reject = reject
        self._batch, self._untracked = InputBatch(is_identified=self._is_identified), NO_TREES
        self._hashes: dict[bytes | None, np.uint64] = {}  # by `source` header
        self._streams: dict[Any, InputStream] = {}  # by `source` header
        for subscription in getattr(manifest.component(bolt), "subscriptions", ()):
            source, stream = subscription.source, manifest.stream(subscription.source, subscription.stream)
            input_ = InputStream(source, stream.name, stream.field_names, payload_codec(stream))
            header = f"{source}/{stream.name}".encode()
            self._streams[header], self._hashes[header] = input_, source_hash(header)

    def read(self, record: Record) -> InputRows | None:
        """The tuples of a record that are not done, as values; unreadable ones are rejected and left out.

        None for none.
        """
        if not self._inputs.start(record.offset()):  # type: ignore[arg-type]
            return None
        headers = self._headers(record)
        try:
            stream, payload = self._stream(record, headers)
            rows, errors = stream.codec.decode(payload)
            pack = self._open(record, stream, headers, len(rows))
        except WireError as error:
            self._reject_record(record, headers, error)
            return None
        for index, unread in errors.items():
            if not pack.settled[index]:
                self._reject(pack.tuple_at(index, rows[index]), unread)
        return InputRows.of(rows, pack, errors)

    def read_columns(self, record: Record) -> ArrowInput | None:
        """The tuples of a record that are not done, as columns; None for none, or if it is rejected as unreadable."""
        if not self._inputs.start(record.offset()):  # type: ignore[arg-type]
            return None
        headers = self._headers(record)
        try:
            stream, payload = self._stream(record, headers)
            batch = stream.codec.decode_batch(payload)
            pack = self._open(record, stream, headers, batch.num_rows)
        except WireError as error:
            self._reject_record(record, headers, error)
            return None
        return ArrowInput.of(batch, pack, stream.codec)

    def _headers(self, record: Record) -> _Headers:
        headers: Any = record.headers() or ()
        named = dict(headers)  # the last of a name counts
        source = named.pop(SOURCE_HEADER, None)
        anchors, counts = named.pop(ANCHORS_HEADER, None), named.pop(ANCHOR_COUNTS_HEADER, None)
        identities = named.pop(IDENTITIES_HEADER, None) if self._is_identified else None
        context = trace_context(headers) if named else []
        if not self._is_tracked:
            return _Headers(source, None, None, None, context)
        return _Headers(source, anchors, counts, identities, context)

    def _stream(self, record: Record, headers: _Headers) -> tuple[Any, bytes]:
        source = headers.source
        stream = self._streams.get(source)
        if stream is None and source is None:
            raise WireError("no-source", f"the record has no {SOURCE_HEADER} header")
        if stream is None:
            received = ", ".join(name.decode() for name in self._streams)
            raise WireError("unknown-source", f"{self._bolt} does not receive {source!r}: it receives {received}")
        payload = record.value()
        if payload is None:
            raise WireError("no-payload", "the record has no value")
        return stream, payload

    def _open(self, record: Record, stream: InputStream, headers: _Headers, size: int) -> InputPack:
        """Opens a record with `size` tuples; raises `WireError` if its headers do not match."""
        anchors, identities = AnchorColumns.read(headers.anchors, headers.counts, size), None
        if self._is_identified:
            identities = IdentityColumns.read(headers.identities, size).received(self._hashes[headers.source])
            if anchors.starts is not None:
                identities = identities.spread(anchors.counts)
        return self._opened(record, stream, headers, size, anchors, identities)

    def _opened(
        self,
        record: Record,
        stream: InputStream,
        headers: _Headers,
        size: int,
        anchors: AnchorColumns,
        identities: IdentityColumns | None = None,
    ) -> InputPack:
        offset: int = record.offset()  # type: ignore[assignment]
        context = headers.trace_context
        if len(anchors.roots):
            if self._batch.size >= MOST_PLACES or self._batch.trace_context != context:
                self._batch = InputBatch(context, is_identified=self._is_identified)
            first = self._batch.add(anchors.roots, anchors.edges, identities)
            pack = InputPack(record, stream, offset, size, self._batch, first, anchors.starts)
        else:
            if self._untracked.trace_context != context:
                self._untracked = InputBatch(context, is_tracked=False)
            pack = InputPack(record, stream, offset, size, self._untracked)
        self._inputs.open(pack)
        return pack

    def _reject_record(self, record: Record, headers: _Headers, error: WireError) -> None:
        # One tuple for all roots that can be read from the header; it needs no edges, because it is not acked.
        roots = np.unique(readable_roots(headers.anchors or b""))
        columns = AnchorColumns(roots, np.array([0, len(roots)]))
        self._reject(self._opened(record, UNKNOWN_STREAM, headers, 1, columns).tuple_at(0, ()), error)
