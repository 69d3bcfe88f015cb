"""The codec: round trips, everything that can be wrong with a record, and the pinned bytes of the wire contract."""

import dataclasses
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuple_tree.errors import WireError
from tuple_tree.ids import ID_MASK, IdColumn
from tuple_tree.messages import (
    ACK_BATCH,
    NOTICE_BATCH,
    AckBatch,
    FailReason,
    NoticeBatch,
    SpoutAddress,
    decode_ack_batch,
    decode_notice_batch,
    encode_ack_batch,
    encode_notice_batch,
    failed_by_of,
    notice_headers,
    schema_directory,
)

_VECTORS = Path(__file__).parent / "vectors"
_IDS = st.integers(0, ID_MASK)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _column(ids: list[int]) -> IdColumn:
    return np.array(ids, dtype=np.uint64)


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[IdColumn, IdColumn]:
    pairs = draw(st.lists(st.tuples(_IDS, _IDS), max_size=8))
    return _column([root for root, _ in pairs]), _column([val for _, val in pairs])


@st.composite
def _ack_batches(draw: st.DrawFn) -> AckBatch:
    inits = draw(_pairs())
    fails = draw(st.lists(st.tuples(_IDS, _TEXTS), max_size=4))
    acks, marks = draw(_pairs()), draw(_pairs())
    spouts = st.builds(SpoutAddress, _TEXTS, st.integers(0, 2**31 - 1), st.integers(1, 2**63 - 1))
    return AckBatch(
        writer=draw(_TEXTS),
        session=draw(st.binary(min_size=16, max_size=16)),
        sequence=draw(st.integers(-(2**63), 2**63 - 1)),
        opens=draw(st.booleans()),
        spout=draw(spouts if len(inits[0]) else st.none() | spouts),
        init_roots=inits[0],
        init_vals=inits[1],
        ack_roots=acks[0],
        ack_vals=acks[1],
        fail_roots=_column([root for root, _ in fails]),
        fail_messages=tuple(message for _, message in fails),
        reset_roots=_column(draw(st.lists(_IDS, max_size=4))),
        mark_roots=marks[0],
        mark_vals=marks[1],
        mark_messages=tuple(draw(_TEXTS) for _ in marks[0]),
    )


@st.composite
def _notice_batches(draw: st.DrawFn) -> NoticeBatch:
    fails = draw(st.lists(st.tuples(_IDS, st.integers(1, 3), _TEXTS), max_size=4))
    marks = draw(st.lists(st.tuples(_IDS, _TEXTS, _TEXTS), max_size=4))
    return NoticeBatch(
        acks_partition=draw(st.integers(0, 2**31 - 1)),
        acks_offset=draw(st.integers(0, 2**63 - 1)),
        acked_roots=_column(draw(st.lists(_IDS, max_size=8))),
        failed_roots=_column([root for root, _, _ in fails]),
        fail_reasons=np.array([reason for _, reason, _ in fails], dtype=np.uint8),
        fail_messages=tuple(message for _, _, message in fails),
        marked_roots=_column([root for root, _, _ in marks]),
        mark_messages=tuple(message for _, message, _ in marks),
        marked_by=tuple(by for _, _, by in marks),
    )


def _plain(batch: AckBatch | NoticeBatch) -> dict[str, Any]:
    """The batch with its columns as lists, so that two can be compared; without its headers."""
    plain = {name: getattr(batch, name) for name in batch.__slots__ if name != "failed_by"}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in plain.items()}


@given(_ack_batches(), _notice_batches())
def test_batches_round_trip(acks: AckBatch, notices: NoticeBatch) -> None:
    assert _plain(decode_ack_batch(encode_ack_batch(acks))) == _plain(acks)
    assert _plain(decode_notice_batch(encode_notice_batch(notices))) == _plain(notices)
    # Version 0.2 reads batches without marks.
    assert encode_ack_batch(acks).startswith(ACK_BATCH.headers[not len(acks.mark_roots)])
    assert encode_notice_batch(notices).startswith(NOTICE_BATCH.headers[not len(notices.marked_roots)])


def test_a_message_that_is_not_utf8_is_escaped() -> None:
    batch = AckBatch("w", bytes(16), 0, fail_roots=_column([1]), fail_messages=("no file \udcff, ✗",))
    assert decode_ack_batch(encode_ack_batch(batch)).fail_messages == ("no file \\udcff, ✗",)
    notice = NoticeBatch(
        0, 0, failed_roots=_column([1]), fail_reasons=np.array([1], dtype=np.uint8), fail_messages=("\ud800",)
    )
    assert decode_notice_batch(encode_notice_batch(notice)).fail_messages == ("\\ud800",)


def test_the_bolt_that_failed_a_tree_is_in_a_header() -> None:
    """Not in the batch, because readers of other versions use its schema."""
    by = ("count/1", "", "a\nb/\udcff")
    headers = notice_headers(NoticeBatch(0, 0, failed_by=by))
    assert failed_by_of(dict(headers), 3) == ("count/1", "", "a b/\\udcff")
    assert notice_headers(NoticeBatch(0, 0, failed_by=("", ""))) == []
    for missing in ({}, {"failed-by": None}, {"failed-by": b"one\nline too many\n"}):
        assert failed_by_of(missing, 2) == ("", "")


def _vector(name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads((_VECTORS / f"{name}.json").read_text())
    return vector


@pytest.mark.parametrize("marked", ["", "_marked"])
@pytest.mark.parametrize(
    ("name", "decode", "encode"),
    [
        ("ack_batch", decode_ack_batch, encode_ack_batch),
        ("notice_batch", decode_notice_batch, encode_notice_batch),
    ],
)
def test_the_pinned_batches(name: str, marked: str, decode: Any, encode: Any) -> None:
    """Written and read here, and read by a plain Avro library."""
    vector = _vector(name + marked)
    value, fields = bytes.fromhex(vector["hex"]), vector["fields"]
    batch = decode(value)
    assert encode(batch) == value
    plain = {field: list(shown) if isinstance(shown, tuple) else shown for field, shown in _plain(batch).items()}
    if name == "ack_batch":
        plain |= {"session": batch.session.hex(), "spout": dataclasses.asdict(batch.spout)}
    ids = [field for field in fields if field.endswith(("_roots", "_vals"))]
    no_marks: dict[str, Any] = {} if marked else {field: [] for field in plain if field.startswith("mark")}
    assert plain | {field: [f"{id_:016x}" for id_ in plain[field]] for field in ids} == fields | no_marks

    body = io.BytesIO(value[10:])
    schema: Any = json.loads((schema_directory() / f"{name}.avsc").read_text())
    schema["fields"] = [field for field in schema["fields"] if field["name"] not in no_marks]
    record: Any = fastavro.schemaless_reader(body, fastavro.parse_schema(schema), None)
    assert body.read() == b""
    expected = {field: "".join(shown) if field in ids else shown for field, shown in fields.items()}
    if name == "ack_batch":
        expected |= {"init_runs": "", "ack_runs": ""}
    else:
        expected["fail_reasons"] = bytes(fields["fail_reasons"]).hex()
    assert {field: shown.hex() if isinstance(shown, bytes) else shown for field, shown in record.items()} == expected


_SPOUT = {"topic": "t.notices.s", "task": 0, "timeout_ms": 1}
_ID_COLUMNS = (
    "init_roots",
    "init_vals",
    "init_runs",
    "ack_roots",
    "ack_vals",
    "ack_runs",
    "fail_roots",
    "reset_roots",
    "mark_roots",
    "mark_vals",
)
_ACKS: dict[str, Any] = {
    "writer": "w",
    "session": bytes(16),
    "sequence": 0,
    "opens": False,
    "spout": _SPOUT,
    "fail_messages": [],
    "mark_messages": [],
    **dict.fromkeys(_ID_COLUMNS, b""),
}
_NOTICE: dict[str, Any] = {
    "acks_partition": 0,
    "acks_offset": 0,
    "acked_roots": b"",
    "failed_roots": bytes(8),
    "fail_reasons": b"\1",
    "fail_messages": [""],
    "marked_roots": b"",
    "mark_messages": [],
    "marked_by": [],
}


def _ack_record(**changes: Any) -> bytes:
    """An ack batch of any fields, uneven ones too."""
    return ACK_BATCH.encode({**_ACKS, **changes})


def _notice_record(**changes: Any) -> bytes:
    return NOTICE_BATCH.encode({**_NOTICE, **changes})


def _zigzag(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


# Writer w, a session of zeros, sequence 0, opens false, no spout; eight columns are to follow.
_BEGINNING = ACK_BATCH.headers[1] + _zigzag(1) + b"w" + bytes(16) + _zigzag(0) + b"\0" + _zigzag(0)
_LONG_TEXT = ACK_BATCH.headers[1] + _zigzag(900_000) + b"\xff" * 900_000 + bytes(27)
_NOT_ACKS: dict[str, list[bytes | None]] = {
    "empty": [None, b""],
    "not-avro": [b"{}", b"\xc3"],
    "unsupported-version": [b"\xc3\x01" + bytes(50)],
    "wrong-schema": [_notice_record()],
    "trailing-bytes": [_ack_record() + b"\x00"],
    "ragged-column": [_ack_record(**{name: bytes(7)}) for name in _ID_COLUMNS],
    "uneven-columns": [
        _ack_record(init_roots=bytes(8), init_vals=bytes(16)),
        _ack_record(ack_roots=bytes(16), ack_vals=bytes(8)),
        _ack_record(fail_roots=bytes(8)),
        _ack_record(mark_roots=bytes(8), mark_vals=bytes(8)),
        _ack_record(mark_roots=bytes(8), mark_messages=["no"]),
    ],
    "no-spout": [_ack_record(spout=None, init_roots=bytes(8), init_vals=bytes(8))],
    "bad-spout": [_ack_record(spout={**_SPOUT, **wrong}) for wrong in ({"task": -1}, {"timeout_ms": 0})],
    # Lengths that lie: beyond the record, and negative.
    "truncated": [
        _BEGINNING + _zigzag(2**62) + bytes(100),
        _BEGINNING + _zigzag(0) * 7 + _zigzag(0) + _zigzag(-8) + bytes(8),
        _BEGINNING + _zigzag(0) * 7 + _zigzag(-(2**62)) + _zigzag(9) + bytes(1000),
    ],
    # A branch that the union does not have, and text that is not UTF-8.
    "malformed": [_BEGINNING[:-1] + _zigzag(5) + bytes(50), _LONG_TEXT],
}
_NOT_NOTICES: dict[str, list[bytes | None]] = {
    "empty": [None],
    "unsupported-version": [b"\xc3\x01" + bytes(50)],
    "wrong-schema": [_ack_record()],
    "trailing-bytes": [_notice_record() + b"\x00\x00"],
    "ragged-column": [_notice_record(acked_roots=bytes(7)), _notice_record(failed_roots=bytes(9))],
    "uneven-columns": [
        _notice_record(failed_roots=b""),
        _notice_record(fail_messages=[]),
        _notice_record(marked_roots=bytes(8), mark_messages=[""]),
    ],
    "unknown-reason": [_notice_record(fail_reasons=bytes([reason])) for reason in (0, FailReason.LOST, 255)],
}


@pytest.mark.parametrize(("decode", "reasons"), [(decode_ack_batch, _NOT_ACKS), (decode_notice_batch, _NOT_NOTICES)])
def test_batches_that_cannot_be_used(decode: Any, reasons: dict[str, list[bytes | None]]) -> None:
    for reason, values in reasons.items():
        for value in values:
            with pytest.raises(WireError) as raised:
                decode(value)
            assert raised.value.reason == reason, value and value[:50]
            # It becomes the header of a dead letter, so it must be short whatever the record is.
            assert 0 < len(raised.value.detail) <= 500


def _raises_wire_errors_only(value: bytes) -> None:
    for decode in (decode_ack_batch, decode_notice_batch):
        with suppress(WireError):
            decode(value)


@given(st.sampled_from([b"", *ACK_BATCH.headers, *NOTICE_BATCH.headers, _BEGINNING]), st.binary(max_size=200))
@example(_BEGINNING, b"\xff" * 900_000)
@example(_BEGINNING, _zigzag(0) * 7 + _zigzag(-(2**63)) + bytes(900_000))
def test_garbage_is_a_wire_error(header: bytes, body: bytes) -> None:
    _raises_wire_errors_only(header + body)


@given(st.sampled_from(["ack_batch", "notice_batch"]), st.data())
def test_a_record_that_is_cut_or_has_a_changed_byte_is_another_batch_or_a_wire_error(
    name: str, data: st.DataObject
) -> None:
    value = bytearray.fromhex(_vector(name)["hex"])
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    for decode in (decode_ack_batch, decode_notice_batch):
        with pytest.raises(WireError):
            decode(bytes(cut))
    for _ in range(20):
        at = data.draw(st.integers(0, len(value) - 1))
        kept, value[at] = value[at], data.draw(st.integers(0, 255))
        _raises_wire_errors_only(bytes(value))
        value[at] = kept
