"""Streams: what may be declared, and how each codec carries values."""

import io
import json
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuple_tree.errors import WireError
from tuple_tree.streams import Field, Stream, declare, payload_codec

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_ALL_TYPES: dict[str, Any] = {"text": str, "number": int, "ratio": float, "flag": bool, "raw": bytes}


def test_declared_types_become_avro_types() -> None:
    stream = declare({**_ALL_TYPES, "tags": {"type": "array", "items": "string"}, "maybe": ["null", "long"]})
    assert [field.type for field in stream.fields] == [
        "string", "long", "double", "boolean", "bytes", {"type": "array", "items": "string"}, ["null", "long"],
    ]  # fmt: skip
    assert stream.field_names == (*_ALL_TYPES, "tags", "maybe")
    assert (stream.name, stream.codec) == ("default", "avro")


def test_names_alone_are_text_or_bytes() -> None:
    assert declare(["a", "b"]) == Stream(fields=(Field(name="a", type="string"), Field(name="b", type="string")))
    assert declare("word") == declare(["word"])
    assert declare(["a"], "raw", "bytes").fields == (Field(name="a", type="bytes"),)


def test_streams_that_cannot_be() -> None:
    refused: list[tuple[Any, str, str, str]] = [
        ([], "default", "avro", "has no fields"),
        (["a", "a"], "default", "avro", "has a field twice: a, a"),
        (["a b"], "default", "avro", "field name 'a b' cannot be used"),
        (["a"], "a.b", "avro", "stream name 'a.b' cannot be used"),
        (["a"], "default", "xml", "'avro', 'json' or 'bytes'"),
        (["a", "b"], "default", "bytes", "carries exactly one field, but it has 2"),
        ({"a": str}, "default", "bytes", "the type of field 'a' must be bytes"),
        ({"a": list}, "default", "avro", "no Avro type .*use str, int, float, bool, bytes or an Avro schema"),
    ]
    for fields, name, codec, complaint in refused:
        with pytest.raises(ValueError, match=complaint):
            declare(fields, name, codec)


@given(_TEXTS, _LONGS, st.floats(allow_nan=False), st.booleans(), st.binary(max_size=20))
def test_avro_round_trip(text: str, number: int, ratio: float, flag: bool, raw: bytes) -> None:
    codec = payload_codec(declare(_ALL_TYPES))
    values = (text, number, ratio, flag, raw)
    assert codec.decode(codec.encode(values)) == values


def test_an_avro_payload_is_the_bare_body() -> None:
    stream = declare({"word": str, "count": int})
    payload = payload_codec(stream).encode(("the", 3))
    assert payload == b"\x06the\x06"
    assert fastavro.schemaless_reader(io.BytesIO(payload), stream.avro_schema(), None) == {"word": "the", "count": 3}


@given(_TEXTS, _LONGS, st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_json_round_trip(text: str, number: int, ratio: float, flag: bool) -> None:
    codec = payload_codec(declare({"text": str, "number": int, "ratio": float, "flag": bool}, codec="json"))
    values = (text, number, ratio, flag)
    payload = codec.encode(values)
    assert codec.decode(payload) == values
    assert list(json.loads(payload)) == ["text", "number", "ratio", "flag"]


def test_json_from_elsewhere_may_have_another_order_and_more_fields() -> None:
    codec = payload_codec(declare(["a", "b"], codec="json"))
    assert codec.decode(b' {"b": "2", "more": [1], "a": "\xc3\xb6"} ') == ("ö", "2")


def test_bytes_are_carried_as_they_are() -> None:
    codec = payload_codec(declare(["raw"], codec="bytes"))
    assert codec.encode((b"\x00\xff",)) == b"\x00\xff"
    assert codec.decode(b"\x00\xff") == (b"\x00\xff",)


def test_values_that_do_not_fit() -> None:
    unfit: dict[str, list[tuple[Any, ...]]] = {
        "avro": [("a",), ("a", 1, 2), ("a", "b"), (None, 1), ("a", 2**63)],
        "json": [("a",), ("a", object()), ("a", float("nan")), ("a", float("inf")), ("a", b"raw")],
        "bytes": [(), ("text",), (b"a", b"b")],
    }
    for codec, refused in unfit.items():
        fields: Any = ["raw"] if codec == "bytes" else {"a": str, "b": int}
        for values in refused:
            with pytest.raises((ValueError, TypeError, OverflowError)):
                payload_codec(declare(fields, codec=codec)).encode(values)


def test_payloads_that_are_not_the_streams() -> None:
    unreadable = {
        "avro": [b"", b"\x06th", b"\x06the\x06\x00", b"\x06\xff\xff\xff\x06", b"\xff" * 9 + b"\x01"],
        "json": [
            *(b"", b"{", b"[]", b"null", b'"a"', b'{"a": "1"}', b"\xff\xfe"),
            *(b"[" * 100_000, b'{"a": ' + b"[" * 100_000),
        ],
    }
    for codec, payloads in unreadable.items():
        for payload in payloads:
            with pytest.raises(WireError) as raised:
                payload_codec(declare({"a": str, "b": int}, codec=codec)).decode(payload)
            assert raised.value.reason == "bad-payload"
            assert len(raised.value.detail) <= 500


@given(st.sampled_from(["avro", "json"]), st.binary(max_size=100))
def test_garbage_is_a_wire_error(codec: str, payload: bytes) -> None:
    reader = payload_codec(declare({"a": str, "b": {"type": "array", "items": "long"}}, codec=codec))
    with suppress(WireError):
        assert len(reader.decode(payload)) == 2
