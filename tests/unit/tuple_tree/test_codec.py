"""The codec: round trips, everything that can be wrong with a record, and the pinned bytes of the wire contract."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuple_tree.codec import (
    ACK_BATCH,
    NOTICE_BATCH,
    decode_ack_batch,
    decode_notice_batch,
    encode_ack_batch,
    encode_notice_batch,
    schema_directory,
)
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_MASK, IdColumn
from tuple_tree.messages import AckBatch, FailReason, NoticeBatch, SpoutTask

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
    init_roots, init_vals = draw(_pairs())
    ack_roots, ack_vals = draw(_pairs())
    fails = draw(st.lists(st.tuples(_IDS, _TEXTS), max_size=4))
    spouts = st.builds(SpoutTask, _TEXTS, st.integers(0, 2**31 - 1), st.integers(1, 2**63 - 1))
    return AckBatch(
        writer=draw(_TEXTS),
        session=draw(st.binary(min_size=16, max_size=16)),
        sequence=draw(st.integers(-(2**63), 2**63 - 1)),
        opens=draw(st.booleans()),
        spout=draw(spouts if len(init_roots) else st.none() | spouts),
        init_roots=init_roots,
        init_vals=init_vals,
        ack_roots=ack_roots,
        ack_vals=ack_vals,
        fail_roots=_column([root for root, _ in fails]),
        fail_messages=tuple(message for _, message in fails),
        reset_roots=_column(draw(st.lists(_IDS, max_size=4))),
    )


@st.composite
def _notice_batches(draw: st.DrawFn) -> NoticeBatch:
    fails = draw(st.lists(st.tuples(_IDS, st.integers(1, 3), _TEXTS), max_size=4))
    return NoticeBatch(
        acks_partition=draw(st.integers(0, 2**31 - 1)),
        acks_offset=draw(st.integers(0, 2**63 - 1)),
        acked_roots=_column(draw(st.lists(_IDS, max_size=8))),
        failed_roots=_column([root for root, _, _ in fails]),
        fail_reasons=np.array([reason for _, reason, _ in fails], dtype=np.uint8),
        fail_messages=tuple(message for _, _, message in fails),
    )


def _plain(batch: AckBatch | NoticeBatch) -> dict[str, Any]:
    """The batch with its columns as lists, so that two can be compared."""
    plain = {name: getattr(batch, name) for name in batch.__slots__}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in plain.items()}


@given(_ack_batches())
def test_ack_batches_round_trip(batch: AckBatch) -> None:
    assert _plain(decode_ack_batch(encode_ack_batch(batch))) == _plain(batch)


@given(_notice_batches())
def test_notice_batches_round_trip(batch: NoticeBatch) -> None:
    assert _plain(decode_notice_batch(encode_notice_batch(batch))) == _plain(batch)


def test_a_decoded_batch_encodes_to_the_same_bytes() -> None:
    value = bytes.fromhex(_vector("ack_batch")["hex"])
    assert encode_ack_batch(decode_ack_batch(value)) == value


def test_a_message_that_utf8_cannot_carry_is_escaped_and_not_fatal() -> None:
    batch = AckBatch("w", bytes(16), 0, fail_roots=_column([1]), fail_messages=("no file \udcff, ✗",))
    assert decode_ack_batch(encode_ack_batch(batch)).fail_messages == ("no file \\udcff, ✗",)
    notice = NoticeBatch(0, 0, failed_roots=_column([1]), fail_reasons=_reasons(1), fail_messages=("\ud800",))
    assert decode_notice_batch(encode_notice_batch(notice)).fail_messages == ("\\ud800",)


def test_a_batch_of_900_kilobytes() -> None:
    ids = np.arange(56_000, dtype=np.uint64)
    value = encode_ack_batch(AckBatch("w", bytes(16), 0, ack_roots=ids, ack_vals=ids))
    assert len(value) > 890_000
    assert (decode_ack_batch(value).ack_vals == ids).all()


def _reasons(*reasons: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    return np.array(reasons, dtype=np.uint8)


# --- pinned bytes -----------------------------------------------------------------------------------------------------


def _vector(name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads((_VECTORS / f"{name}.json").read_text())
    return vector


def _hexes(column: IdColumn) -> list[str]:
    return [f"{id_:016x}" for id_ in column.tolist()]


def test_the_pinned_ack_batch() -> None:
    vector = _vector("ack_batch")
    fields = vector["fields"]
    value = bytes.fromhex(vector["hex"])
    batch = decode_ack_batch(value)
    assert {
        **_plain(batch),
        "session": batch.session.hex(),
        "spout": {"topic": batch.spout.topic, "task": batch.spout.task, "timeout_ms": batch.spout.timeout_ms}
        if batch.spout
        else None,
        "fail_messages": list(batch.fail_messages),
        **{name: _hexes(getattr(batch, name)) for name in fields if name.endswith(("_roots", "_vals"))},
    } == fields
    assert encode_ack_batch(batch) == value


def test_the_pinned_notice_batch() -> None:
    vector = _vector("notice_batch")
    fields = vector["fields"]
    value = bytes.fromhex(vector["hex"])
    batch = decode_notice_batch(value)
    assert {
        **_plain(batch),
        "fail_messages": list(batch.fail_messages),
        **{name: _hexes(getattr(batch, name)) for name in fields if name.endswith("_roots")},
    } == fields
    assert encode_notice_batch(batch) == value


@pytest.mark.parametrize("name", ["ack_batch", "notice_batch"])
def test_a_plain_avro_library_reads_the_same(name: str) -> None:
    vector = _vector(name)
    body = io.BytesIO(bytes.fromhex(vector["hex"])[10:])
    schema = fastavro.schema.load_schema(str(schema_directory() / f"{name}.avsc"))
    record: Any = fastavro.schemaless_reader(body, schema, None)
    assert body.read() == b""
    expected = {
        field: "".join(value)
        if field.endswith(("_roots", "_vals"))
        else bytes(value).hex()
        if field == "fail_reasons"
        else value
        for field, value in vector["fields"].items()
    }
    assert {field: value.hex() if isinstance(value, bytes) else value for field, value in record.items()} == expected


# --- what is wrong with a record --------------------------------------------------------------------------------------


def _ack_record(**changes: Any) -> bytes:
    """An ack batch of any fields, uneven ones too."""
    fields: dict[str, Any] = {
        "writer": "w",
        "session": bytes(16),
        "sequence": 0,
        "opens": False,
        "spout": {"topic": "t.notices.s", "task": 0, "timeout_ms": 1},
        **dict.fromkeys(("init_roots", "init_vals", "ack_roots", "ack_vals", "fail_roots", "reset_roots"), b""),
        "fail_messages": [],
    }
    return ACK_BATCH.encode({**fields, **changes})


def _notice_record(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "acks_partition": 0,
        "acks_offset": 0,
        **dict.fromkeys(("acked_roots", "failed_roots", "fail_reasons"), b""),
        "fail_messages": [],
    }
    return NOTICE_BATCH.encode({**fields, **changes})


def _zigzag(number: int) -> bytes:
    rest = (number << 1 ^ number >> 63) & ID_MASK
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


_SPOUT = {"topic": "t.notices.s", "task": 0, "timeout_ms": 1}
# Writer w, a session of zeros, sequence 0, opens false, no spout; six columns are to follow.
_BEGINNING = ACK_BATCH.header + _zigzag(1) + b"w" + bytes(16) + _zigzag(0) + b"\0" + _zigzag(0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"{}", "not-avro"),
        (b"\xc3", "not-avro"),
        (b"\x00" * 100, "not-avro"),
        (b"\xc3\x01", "unknown-schema"),
        (b"\xc3\x01" + bytes(50), "unknown-schema"),
        (_notice_record(), "unknown-schema"),
        (ACK_BATCH.header, "truncated"),
        (_ack_record() + b"\x00", "trailing-bytes"),
        (_ack_record(init_roots=bytes(7)), "ragged-column"),
        (_ack_record(init_vals=bytes(9)), "ragged-column"),
        (_ack_record(ack_roots=bytes(1)), "ragged-column"),
        (_ack_record(ack_vals=bytes(15)), "ragged-column"),
        (_ack_record(fail_roots=bytes(4)), "ragged-column"),
        (_ack_record(reset_roots=bytes(12)), "ragged-column"),
        (_ack_record(init_roots=bytes(8)), "uneven-columns"),
        (_ack_record(init_roots=bytes(8), init_vals=bytes(16)), "uneven-columns"),
        (_ack_record(ack_vals=bytes(8)), "uneven-columns"),
        (_ack_record(ack_roots=bytes(16), ack_vals=bytes(8)), "uneven-columns"),
        (_ack_record(fail_roots=bytes(8)), "uneven-columns"),
        (_ack_record(fail_messages=["why"]), "uneven-columns"),
        (_ack_record(spout=None, init_roots=bytes(8), init_vals=bytes(8)), "no-spout"),
        (_ack_record(spout={**_SPOUT, "task": -1}), "bad-spout"),
        (_ack_record(spout={**_SPOUT, "timeout_ms": 0}), "bad-spout"),
        (_ack_record(spout={**_SPOUT, "timeout_ms": -5}), "bad-spout"),
        # Lengths that lie: beyond the record, negative, and of more bits than there are.
        (_BEGINNING + _zigzag(2**62) + bytes(100), "truncated"),
        (_BEGINNING + _zigzag(2**63 - 1) + bytes(100), "truncated"),
        (_BEGINNING + _zigzag(0) * 5 + _zigzag(0) + _zigzag(-8) + bytes(8), "truncated"),
        (_BEGINNING + _zigzag(0) * 5 + _zigzag(2**62) + bytes(1000), "truncated"),
        (_BEGINNING + _zigzag(0) * 5 + _zigzag(-(2**62)) + _zigzag(9) + bytes(1000), "truncated"),
        (ACK_BATCH.header + b"\xff" * 1000, "truncated"),
        # A branch that the union does not have, and text that is no UTF-8.
        (_BEGINNING[:-1] + _zigzag(5) + bytes(50), "malformed"),
        (ACK_BATCH.header + _zigzag(900_000) + b"\xff" * 900_000 + bytes(27), "malformed"),
    ],
)
def test_ack_batches_that_cannot_be_used(value: bytes | None, reason: str) -> None:
    with pytest.raises(WireError) as raised:
        decode_ack_batch(value)
    assert raised.value.reason == reason
    # It becomes the header of a dead letter, so it must be short whatever the record is.
    assert 0 < len(raised.value.detail) <= 500


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty"),
        (_ack_record(), "unknown-schema"),
        (_notice_record() + b"\x00\x00", "trailing-bytes"),
        (_notice_record(acked_roots=bytes(7)), "ragged-column"),
        (_notice_record(failed_roots=bytes(9), fail_reasons=b"\1", fail_messages=[""]), "ragged-column"),
        (_notice_record(failed_roots=bytes(8)), "uneven-columns"),
        (_notice_record(failed_roots=bytes(8), fail_messages=[""]), "uneven-columns"),
        (_notice_record(failed_roots=bytes(8), fail_reasons=b"\1"), "uneven-columns"),
        (_notice_record(fail_reasons=b"\1"), "uneven-columns"),
        (_notice_record(failed_roots=bytes(8), fail_reasons=b"\0", fail_messages=[""]), "unknown-reason"),
        (_notice_record(failed_roots=bytes(8), fail_reasons=b"\xff", fail_messages=[""]), "unknown-reason"),
        (
            _notice_record(failed_roots=bytes(8), fail_reasons=bytes([FailReason.LOST]), fail_messages=[""]),
            "unknown-reason",
        ),
    ],
)
def test_notice_batches_that_cannot_be_used(value: bytes | None, reason: str) -> None:
    with pytest.raises(WireError) as raised:
        decode_notice_batch(value)
    assert raised.value.reason == reason
    assert 0 < len(raised.value.detail) <= 500


@pytest.mark.parametrize("name", ["ack_batch", "notice_batch"])
def test_every_prefix_of_a_record_is_refused(name: str) -> None:
    value = bytes.fromhex(_vector(name)["hex"])
    decode = decode_ack_batch if name == "ack_batch" else decode_notice_batch
    for length in range(len(value)):
        with pytest.raises(WireError) as raised:
            decode(value[:length])
        expected = (
            "empty" if not length else "not-avro" if length < 2 else "unknown-schema" if length < 10 else "truncated"
        )
        assert (length, raised.value.reason) == (length, expected)


_REASONS = {
    "empty", "not-avro", "unknown-schema", "truncated", "malformed", "trailing-bytes", "ragged-column",
    "uneven-columns", "no-spout", "bad-spout", "unknown-reason",
}  # fmt: skip


def _failure(decode: Callable[[bytes], object], value: bytes) -> WireError | None:
    try:
        decode(value)
    except WireError as error:
        return error
    return None


def _raises_wire_errors_only(value: bytes) -> None:
    for decode in (decode_ack_batch, decode_notice_batch):
        failed = _failure(decode, value)
        if failed is not None:
            assert failed.reason in _REASONS
            assert len(failed.detail) <= 500


@given(st.binary(max_size=200))
def test_garbage_is_a_wire_error(value: bytes) -> None:
    _raises_wire_errors_only(value)


@settings(max_examples=500)
@given(st.sampled_from([ACK_BATCH.header, NOTICE_BATCH.header, _BEGINNING]), st.binary(max_size=200))
@example(_BEGINNING, bytes(900_000))
@example(_BEGINNING, b"\xff" * 900_000)
@example(_BEGINNING, _zigzag(0) * 5 + _zigzag(-(2**63)) + bytes(900_000))
@example(_BEGINNING, _zigzag(0) * 5 + _zigzag(2**63 - 1) + bytes(900_000))
def test_garbage_behind_a_header_is_a_wire_error(header: bytes, body: bytes) -> None:
    _raises_wire_errors_only(header + body)


@settings(max_examples=500)
@given(st.sampled_from(["ack_batch", "notice_batch"]), st.data())
def test_a_record_with_a_changed_byte_is_another_batch_or_a_wire_error(name: str, data: st.DataObject) -> None:
    value = bytearray.fromhex(_vector(name)["hex"])
    value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    _raises_wire_errors_only(bytes(value))
