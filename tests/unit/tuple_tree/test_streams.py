"""Streams: valid declarations, and the values of each codec."""

import io
import json
import random
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuple_tree.errors import WireError
from tuple_tree.payloads import decode_tuples, encode_tuples, payload_codec
from tuple_tree.streams import Field, StreamDeclaration, declare

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_ALL_TYPES: dict[str, Any] = {"text": str, "number": int, "ratio": float, "flag": bool, "raw": bytes}


def test_declared_types_become_avro_types() -> None:
    stream = declare({**_ALL_TYPES, "tags": {"type": "array", "items": "string"}, "maybe": ["null", "long"]})
    assert [field.type for field in stream.fields] == [
        "string", "long", "double", "boolean", "bytes", {"type": "array", "items": "string"}, ["null", "long"],
    ]  # fmt: skip
    assert stream.field_names == (*_ALL_TYPES, "tags", "maybe")
    assert (stream.name, stream.codec) == ("default", "arrow")
    # Names alone are of text, or of bytes.
    assert declare(["a", "b"]) == StreamDeclaration(
        fields=(Field(name="a", type="string"), Field(name="b", type="string"))
    )
    assert declare("word") == declare(["word"])
    assert declare(["a"], "raw", "bytes").fields == (Field(name="a", type="bytes"),)


_INVALID: list[tuple[Any, str, str, str]] = [
    ([], "default", "avro", "has no fields"),
    (["a", "a"], "default", "avro", "has a field twice: a, a"),
    (["a b"], "default", "avro", "field name 'a b' cannot be used"),
    (["a"], "a.b", "avro", "stream name 'a.b' cannot be used"),
    (["a"], "default", "xml", "'arrow', 'avro', 'json' or 'bytes'"),
    (["a", "b"], "default", "bytes", "carries exactly one field, but it has 2"),
    ({"a": str}, "default", "bytes", "the type of field 'a' must be bytes"),
    ({"a": "text"}, "default", "avro", "not an Avro type .*use str, int, float, bool, bytes or an Avro schema"),
    ({"a": list}, "default", "avro", 'has the type list, which .* a list is {"type": "array", "items": "string"}'),
    ({"a": list[str]}, "default", "avro", r'has the type list\[str\], which is not an .* a list is {"type": "array"'),
    ({"a": dict}, "default", "json", 'a dict is {"type": "map", "values": "string"}'),
    ({"a": datetime}, "default", "arrow", 'a datetime is {"type": "long", "logicalType": "timestamp-micros"}'),
    ({"a": str | None}, "default", "arrow", r'type str \| None, .* a type and null is \["null", "string"\]'),
    ({"a": 7}, "default", "arrow", "has the type 7, which is not an Avro type: write str, int"),
]


@pytest.mark.parametrize(("fields", "name", "codec", "complaint"), _INVALID)
def test_invalid_streams_are_rejected(fields: Any, name: str, codec: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as raised:
        declare(fields, name, codec)
    assert "\n" not in str(raised.value)
    assert "validation error" not in str(raised.value)


_MORE_TYPES: dict[str, Any] = {
    "tags": {"type": "array", "items": "string"},
    "maybe": ["null", "long"],
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
}
_VALUES = st.tuples(_TEXTS, _LONGS, st.floats(allow_nan=False), st.booleans(), st.binary(max_size=20))
_MORE_VALUES = st.tuples(
    st.lists(_TEXTS, max_size=3), st.none() | _LONGS, st.datetimes(timezones=st.just(UTC)), st.dates()
)


@given(st.lists(st.tuples(_VALUES, _MORE_VALUES), min_size=1, max_size=5))
def test_packs_round_trip(rows: list[tuple[Any, Any]]) -> None:
    for fields, tuples in (
        (_ALL_TYPES, [values for values, _ in rows]),
        ({**_ALL_TYPES, **_MORE_TYPES}, [values + more for values, more in rows]),
    ):
        codec = payload_codec(declare(fields))
        payload = encode_tuples(codec, tuples)
        assert decode_tuples(codec, payload) == tuples
        assert [decode_tuples(codec, codec.alone(payload, at)) for at in range(len(tuples))] == [
            [one] for one in tuples
        ]


@given(_VALUES, st.floats(allow_nan=False, allow_infinity=False))
def test_single_tuples_round_trip(values: Any, ratio: float) -> None:
    for name, row in (("avro", values), ("json", (*values[:2], ratio, values[3]))):
        fields = dict(list(_ALL_TYPES.items())[: len(row)])
        codec = payload_codec(declare(fields, codec=name))
        payload = encode_tuples(codec, [row])
        assert decode_tuples(codec, payload) == [row]
        assert name == "avro" or list(json.loads(payload)) == [*fields]


def test_payloads_of_single_tuples() -> None:
    stream = declare({"word": str, "count": int}, codec="avro")
    payload = encode_tuples(payload_codec(stream), [("the", 3)])
    assert payload == b"\x06the\x06", "the bare body"
    assert fastavro.schemaless_reader(io.BytesIO(payload), stream.avro_schema(), None) == {"word": "the", "count": 3}
    json_ = payload_codec(declare(["a", "b"], codec="json"))
    assert decode_tuples(json_, b' {"b": "2", "more": [1], "a": "\xc3\xb6"} ') == [("ö", "2")]
    raw = payload_codec(declare(["raw"], codec="bytes"))
    assert encode_tuples(raw, [(b"\x00\xff",)]) == b"\x00\xff"
    assert decode_tuples(raw, b"\x00\xff") == [(b"\x00\xff",)]


@given(
    st.tuples(
        st.one_of(st.text(max_size=9), st.integers(), st.none()),
        st.one_of(_LONGS, st.booleans(), st.text(max_size=3)),
        st.one_of(st.floats(allow_nan=False, allow_infinity=False), _LONGS),
        st.one_of(st.booleans(), st.integers(0, 3)),
    )
)
def test_json_is_that_of_the_standard_library_for_any_values(values: Any) -> None:
    codec = payload_codec(declare({"text": str, "number": int, "ratio": float, "flag": bool}, codec="json"))
    record = dict(zip(("text", "number", "ratio", "flag"), values, strict=True))
    assert codec.row(values) == json.dumps(record, separators=(",", ":")).encode()


_UNREADABLE = {
    "avro": [b"", b"\x06th", b"\x06the\x06\x00", b"\x06\xff\xff\xff\x06", b"\xff" * 9 + b"\x01"],
    "json": [b"", b"{", b"[]", b"null", b'"a"', b'{"a": "1"}', b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"[" * 100_000],
}


@pytest.mark.parametrize("codec", _UNREADABLE)
def test_invalid_payloads_are_wire_errors(codec: str) -> None:
    for payload in _UNREADABLE[codec]:
        with pytest.raises(WireError) as raised:
            decode_tuples(payload_codec(declare({"a": str, "b": int}, codec=codec)), payload)
        assert raised.value.reason == "bad-payload"
        assert len(raised.value.detail) <= 500


@given(st.sampled_from(["arrow", "avro", "json"]), st.binary(max_size=100))
def test_garbage_is_a_wire_error(codec: str, payload: bytes) -> None:
    reader = payload_codec(declare({"a": str, "b": {"type": "array", "items": "long"}}, codec=codec))
    with suppress(WireError):
        assert all(len(values) == 2 for values in decode_tuples(reader, payload))


def test_damaged_packs_are_wire_errors() -> None:
    """Arrow does not check lengths and offsets; none of them may lead out of the payload."""
    codec = payload_codec(declare({"a": str, "b": int, "maybe": ["null", "long"], "raw": bytes, "flag": bool}))
    payload = encode_tuples(codec, [("grün", n, None if n % 3 else n, b"x" * n, n % 2 == 0) for n in range(20)])
    chance = random.Random(7)
    refused = 0
    for _ in range(3_000):
        damaged = bytearray(payload)
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        if not chance.randrange(4):
            del damaged[chance.randrange(len(damaged)) :]
        try:
            for text, number, maybe, raw, flag in decode_tuples(codec, bytes(damaged)):
                assert (type(text), type(number), type(raw), type(flag)) == (str, int, bytes, bool)
                assert maybe is None or type(maybe) is int
        except WireError as error:
            refused += error.reason == "bad-payload"
    assert refused > 500


def test_an_unreadable_tuple_of_a_pack_leaves_the_others() -> None:
    stream = declare({"n": int, "tags": {"type": "array", "items": "string"}})
    codec = payload_codec(stream)
    payload = encode_tuples(codec, [(1, ["a"]), (2, ["bcdefg"]), (3, [])])
    rows, errors = codec.decode(payload.replace(b"\x0cbcdefg", b"\x10bcdefg"))
    assert (rows[0], rows[2], [*errors]) == ((1, ["a"]), (3, []), [1])
    assert errors[1].reason == "bad-payload"
