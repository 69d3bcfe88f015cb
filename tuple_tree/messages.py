"""The two messages of the wire contract, as frozen dataclasses with numpy columns, and their Avro form.

Columns are `IdColumn`s: shape `(n,)`, dtype `>u8` when read from the wire, any unsigned 64-bit dtype when built.

A record is in Avro's single-object encoding: the marker `C3 01`, the CRC-64-AVRO fingerprint of the canonical form of
its schema in `schemas/` (8 bytes, little-endian) and the Avro body. Reading checks everything that the ledger and the
spouts rely on.
"""

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, cast

import fastavro
import numpy as np
from fastavro.schema import fingerprint, to_parsing_canonical_form
from numpy.typing import NDArray

from tuple_tree.edge_runs import joined, split
from tuple_tree.edges import Mixer, mix
from tuple_tree.errors import VersionError, WireError
from tuple_tree.ids import NO_IDS, IdColumn, pack_ids, unpack_ids
from tuple_tree.pages import page

SESSION_BYTES: Final = 16


class FailReason(IntEnum):
    """Why a tree failed; the number is what stands in a notice."""

    FAILED = 1
    """A bolt failed a tuple of the tree; the notice carries its message."""
    TIMEOUT = 2
    """No progress for the spout's message timeout."""
    TOO_OLD = 3
    """Progress, but no end, for the largest tree age."""
    LOST = 4
    """No outcome at all for the largest tree age and a margin: decided by the spout itself, never on the wire."""

    @property
    def word(self) -> str:
        """The reason as users, logs and metrics see it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a tuple tree failed.

    Attributes:
        reason: failed by a bolt, timed out, too old, or lost.
        message: the message that the bolt gave; empty for the other reasons.
        component: the bolt that failed it, or the spout whose `translate` raised; empty for the other reasons.
    """

    reason: FailReason
    message: str = ""
    component: str = ""


def _no_ids() -> IdColumn:
    return NO_IDS


@dataclass(frozen=True, slots=True)
class SpoutAddress:
    """The receiver of the outcome of a tree: a partition of `{topology}.notices.{spout}`.

    A tree of this spout may make no progress for `timeout_ms` milliseconds.
    """

    topic: str
    task: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class AckBatch:
    """The entries of one writer for one partition of the ack log: inits first, then acks, fails and resets."""

    writer: str  # `component/task`; in Spark, a partition of a bolt's inbox, or an attempt of a task
    session: bytes  # 16 random bytes, drawn by each new owner of the writer
    sequence: int  # rises with each batch of a session on a partition; what does not rise is a repeat
    opens: bool = False  # the first batch of a session on a partition; it supersedes the writer's earlier sessions
    spout: SpoutAddress | None = None  # the owner of the inits; None where there are none
    init_roots: IdColumn = field(default_factory=_no_ids)
    init_vals: IdColumn = field(default_factory=_no_ids)  # XOR of the edge ids of every recipient
    ack_roots: IdColumn = field(default_factory=_no_ids)
    ack_vals: IdColumn = field(default_factory=_no_ids)
    fail_roots: IdColumn = field(default_factory=_no_ids)
    fail_messages: Sequence[str] = ()  # why, one for each of `fail_roots`
    reset_roots: IdColumn = field(default_factory=_no_ids)  # trees whose clock starts again
    mark_roots: IdColumn = field(default_factory=_no_ids)  # trees with a dead letter: acks that also mark the tree
    mark_vals: IdColumn = field(default_factory=_no_ids)
    mark_messages: Sequence[str] = ()  # why, one for each of `mark_roots`

    def __len__(self) -> int:
        return sum(map(len, self.roots))

    @property
    def roots(self) -> tuple[IdColumn, ...]:
        """The roots of all entries, a column for each kind."""
        return self.init_roots, self.ack_roots, self.fail_roots, self.reset_roots, self.mark_roots


@dataclass(frozen=True, slots=True, eq=False)
class NoticeBatch:
    """Outcomes of tuple trees for one task of a spout."""

    acks_partition: int  # of `{topology}.acks`, whose ledger decided
    acks_offset: int  # the ledger had applied everything before this offset
    acked_roots: IdColumn = field(default_factory=_no_ids)
    failed_roots: IdColumn = field(default_factory=_no_ids)
    fail_reasons: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    """`FailReason` numbers, one for each of `failed_roots`."""
    fail_messages: Sequence[str] = ()  # one for each of `failed_roots`, empty without a message of a bolt
    failed_by: tuple[str, ...] = ()
    """The writer of each fail, `component/task`, empty where no bolt failed the tree; or nothing at all. It travels in
    a header, and only people read it."""
    marked_roots: IdColumn = field(default_factory=_no_ids)  # acked trees in which a tuple became a dead letter
    mark_messages: Sequence[str] = ()  # why, one for each of `marked_roots`
    marked_by: Sequence[str] = ()  # the writer of each mark, `component/task`

    def __len__(self) -> int:
        return len(self.acked_roots) + len(self.failed_roots) + len(self.marked_roots)


_MARKER: Final = b"\xc3\x01"
_HEADER_BYTES: Final = 10
_FAILED_BY: Final = "failed-by"
_WRITER_CHARACTERS: Final = 200
WIRE_REASONS: Final = [reason for reason in FailReason if reason is not FailReason.LOST]
"""The reasons that an acker decides and that a notice may have."""
_UNDELIVERED: Final = re.compile(r"a tuple of \S+ was not delivered: ")

_ROOTS: Final = ("init_roots", "ack_roots", "fail_roots", "reset_roots")
_RUNS: Final = {"init_vals": "init_runs", "ack_vals": "ack_runs"}
_ENTRY_COLUMNS: Final = (*_ROOTS, *_RUNS, "mark_roots", "mark_vals")
_MESSAGES: Final = ("fail_messages", "mark_messages")
_NO_ENTRIES: Final = {**dict.fromkeys((*_ENTRY_COLUMNS, *_RUNS.values()), b""), **dict.fromkeys(_MESSAGES, ())}
_NOTICE_COLUMNS: Final = ("acked_roots", "failed_roots")


def schema_directory() -> Path:
    """Where the `.avsc` files lie: inside the package when installed, at the top of a checkout."""
    packaged = Path(__file__).parent / "_schemas"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "schemas"


class SingleObjectCodec:
    """Avro single-object encoding of a schema, and of the same schema without the fields about marks.

    A record without marks is written by the short schema, so that version 0.2 reads it.

    Attributes:
        headers: the ten bytes that a record starts with, with and without fields about marks.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self.name = str(schema["name"])
        self._marks = tuple(each["name"] for each in schema["fields"] if each["name"].startswith("mark"))
        short = {**schema, "fields": [each for each in schema["fields"] if each["name"] not in self._marks]}
        self._schemas = {_fingerprint(each): fastavro.parse_schema(each) for each in (schema, short)}
        self.headers = tuple(_MARKER + each for each in self._schemas)

    def encode(self, record: dict[str, Any]) -> bytes:
        header = self.headers[not any(record[name] for name in self._marks)]
        out = io.BytesIO()
        out.write(header)
        fastavro.schemaless_writer(out, self._schemas[header[2:]], record)
        return out.getvalue()

    def decode(self, value: bytes | None) -> dict[str, Any]:
        """Reads a record.

        Raises `VersionError` if it has a schema that this version does not know; `WireError`, with reason `empty`,
        `not-avro`, `wrong-schema`, `truncated`, `malformed` or `trailing-bytes`.
        """
        if not value:
            raise WireError("empty", f"a {self.name} record has no value")
        if value[:2] != _MARKER:
            begin = value[:8].hex(" ") + (" …" if len(value) > 8 else "")
            raise WireError("not-avro", f"{begin} does not start with the Avro single-object marker c3 01")
        schema = self._schemas.get(value[2:_HEADER_BYTES])
        if schema is None:
            raise self._other_schema(value[2:_HEADER_BYTES])
        body = io.BytesIO(value)
        body.seek(_HEADER_BYTES)
        try:
            record = fastavro.schemaless_reader(body, schema, None)
        except Exception as error:  # fastavro raises EOFError, ValueError, IndexError and more
            at = body.tell()
            cut = at == len(value) and not isinstance(error, UnicodeDecodeError)
            # The text of a UnicodeDecodeError names a byte; its repr holds all of them.
            brief = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise WireError(
                "truncated" if cut else "malformed",
                f"reading byte {at} of {len(value)} of the {self.name} failed: {brief}",
            ) from error
        if body.tell() != len(value):
            raise WireError("trailing-bytes", f"{len(value) - body.tell()} bytes follow the {self.name}")
        return cast(dict[str, Any], record)

    def _other_schema(self, fingerprint: bytes) -> WireError:
        for other in (ACK_BATCH, NOTICE_BATCH):
            if fingerprint in other._schemas:
                return WireError("wrong-schema", f"a {other.name} lies where a {self.name} is expected")
        known = " or ".join(each.hex() for each in self._schemas)
        return VersionError(
            f"the {self.name} has schema fingerprint {fingerprint.hex()}, which this version does not know "
            f"({self.name} is {known}): upgrade the reader before its writers; if a version "
            f"before 0.2 wrote it, see {page('upgrading.md')}"
        )


def _fingerprint(schema: dict[str, Any]) -> bytes:
    # fastavro prints the fingerprint's bytes in the order in which they stand on the wire.
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def _load(name: str) -> SingleObjectCodec:
    return SingleObjectCodec(json.loads((schema_directory() / f"{name}.avsc").read_text()))


ACK_BATCH: Final = _load("ack_batch")
NOTICE_BATCH: Final = _load("notice_batch")


def undelivered(component: str, cause: str) -> str:
    """The fail message of a tree that has a tuple which `component` could not deliver."""
    return f"a tuple of {component} was not delivered: {cause}"


def is_undelivered(message: str) -> bool:
    """Whether a fail message is one of `undelivered`: the bolt may have acked the input."""
    return _UNDELIVERED.match(message) is not None


def _texts(messages: Sequence[str]) -> list[str]:
    # A bolt's message may hold half a surrogate pair, from a file name for example, which UTF-8 cannot carry.
    return [message.encode(errors="backslashreplace").decode() for message in messages]


def encode_ack_batch(batch: AckBatch) -> bytes:
    spout = batch.spout
    record: dict[str, Any] = {
        **_NO_ENTRIES,
        "writer": batch.writer,
        "session": batch.session,
        "sequence": batch.sequence,
        "opens": batch.opens,
        "spout": spout and {"topic": spout.topic, "task": spout.task, "timeout_ms": spout.timeout_ms},
    }
    # Most columns of most batches are empty.
    for name in _ENTRY_COLUMNS:
        if len(column := getattr(batch, name)):
            if name in _RUNS:
                record[_RUNS[name]], column = split(column)
            record[name] = pack_ids(column)
    for name in _MESSAGES:
        if messages := getattr(batch, name):
            record[name] = _texts(messages)
    return ACK_BATCH.encode(record)


def decode_ack_batch(value: bytes | None, mixer: Mixer = mix) -> AckBatch:
    """Reads the value of a record of `{topology}.acks`; `mixer` computes the edges of runs.

    Raises `WireError` if it is not an ack batch, if columns that belong together differ in length, or if inits name no
    spout.
    """
    record = ACK_BATCH.decode(value)
    for name in _ROOTS:
        record[name] = unpack_ids(record[name], name)
    for kind in ("init", "ack"):
        vals = unpack_ids(record[f"{kind}_vals"], f"{kind}_vals")
        runs, roots = record.pop(f"{kind}_runs"), record[f"{kind}_roots"]
        record[f"{kind}_vals"] = joined(runs, vals, len(roots), f"{kind}_runs", mixer) if runs else vals
    spout = record["spout"] = record["spout"] and SpoutAddress(**record["spout"])
    record["fail_messages"] = tuple(record["fail_messages"])
    if has_marks := "mark_roots" in record:
        record["mark_messages"] = tuple(record["mark_messages"])
        for name in ("mark_roots", "mark_vals"):
            record[name] = unpack_ids(record[name], name)
    batch = AckBatch(**record)
    _check_lengths(batch, ("init_vals", "init_roots"), ("ack_vals", "ack_roots"), ("fail_messages", "fail_roots"))
    if has_marks:
        _check_lengths(batch, ("mark_vals", "mark_roots"), ("mark_messages", "mark_roots"))
    if spout is None:
        if len(batch.init_roots):
            raise WireError("no-spout", f"{len(batch.init_roots)} inits of writer {batch.writer} name no spout")
    elif spout.task < 0 or spout.timeout_ms <= 0:
        raise WireError("bad-spout", f"spout task {spout.task} with a timeout of {spout.timeout_ms} ms is invalid")
    return batch


def encode_notice_batch(batch: NoticeBatch) -> bytes:
    return NOTICE_BATCH.encode(
        {
            "acks_partition": batch.acks_partition,
            "acks_offset": batch.acks_offset,
            "fail_reasons": batch.fail_reasons.tobytes(),
            "fail_messages": _texts(batch.fail_messages),
            "mark_messages": _texts(batch.mark_messages),
            "marked_by": _texts(batch.marked_by),
            "marked_roots": pack_ids(batch.marked_roots),
            **{name: pack_ids(getattr(batch, name)) for name in _NOTICE_COLUMNS},
        }
    )


def notice_headers(batch: NoticeBatch) -> list[tuple[str, bytes]]:
    """The headers of that record: which task failed each tree, a line each; none if no bolt failed any."""
    if not any(batch.failed_by):
        return []
    lines = (" ".join(by.split())[:_WRITER_CHARACTERS] for by in batch.failed_by)
    return [(_FAILED_BY, "\n".join(lines).encode(errors="backslashreplace"))]


def failed_by_of(headers: Mapping[str, Any], fails: int) -> tuple[str, ...]:
    """Which task failed each tree of a notice batch, by its headers; empty where they do not name it."""
    value = headers.get(_FAILED_BY)
    lines = value.decode(errors="replace").split("\n") if isinstance(value, bytes) else []
    return tuple(lines) if len(lines) == fails else ("",) * fails


def decode_notice_batch(value: bytes | None) -> NoticeBatch:
    """Reads the value of a record of `{topology}.notices.{spout}`.

    Raises `WireError` if it is not a notice batch, its columns differ in length, or a reason is unknown.
    """
    record = NOTICE_BATCH.decode(value)
    for name in _NOTICE_COLUMNS:
        record[name] = unpack_ids(record[name], name)
    record["fail_reasons"] = np.frombuffer(record["fail_reasons"], dtype=np.uint8)
    record["fail_messages"] = tuple(record["fail_messages"])
    if has_marks := "marked_roots" in record:
        record["marked_roots"] = unpack_ids(record["marked_roots"], "marked_roots")
        for name in ("mark_messages", "marked_by"):
            record[name] = tuple(record[name])
    batch = NoticeBatch(**record)
    _check_lengths(batch, ("fail_reasons", "failed_roots"), ("fail_messages", "failed_roots"))
    if has_marks:
        _check_lengths(batch, ("mark_messages", "marked_roots"), ("marked_by", "marked_roots"))
    for reason in batch.fail_reasons.tolist():
        if reason not in WIRE_REASONS:
            raise WireError("unknown-reason", f"fail reason {reason} is not one of {[int(r) for r in WIRE_REASONS]}")
    return batch


def _check_lengths(batch: AckBatch | NoticeBatch, *pairs: tuple[str, str]) -> None:
    for column, partner in pairs:
        length, expected = len(getattr(batch, column)), len(getattr(batch, partner))
        if length != expected:
            raise WireError("uneven-columns", f"{column} has {length} entries, {partner} has {expected}")
