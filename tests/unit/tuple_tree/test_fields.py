"""Values of fields: each codec takes and refuses the same, at any depth."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tuple_tree.arrow_packs import PackCodec
from tuple_tree.payloads import decode_tuples, encode_tuples, payload_codec
from tuple_tree.routing import fields_task, grouping_key
from tuple_tree.streams import declare

_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
_COLOR = {"type": "enum", "name": "Color", "namespace": "paint", "symbols": ["red", "blue"]}
_CODECS = ("arrow", "avro", "json")
_NOON = datetime(2026, 1, 1, 12)
_UTC = _NOON.replace(tzinfo=UTC)


def _around(avro_type: Any) -> list[tuple[Any, Any]]:
    """A type alone and inside others, each with what makes a value of it."""
    record = {"type": "record", "name": "Part", "fields": [{"name": "part", "type": avro_type}]}
    return [
        (avro_type, lambda value: value),
        (["null", avro_type], lambda value: value),
        (["null", "string", avro_type], lambda value: value),
        ({"type": "array", "items": avro_type}, lambda value: [value]),
        ({"type": "map", "values": ["null", avro_type]}, lambda value: {"a": None, "b": value}),
        ({"type": "array", "items": record}, lambda value: [{"part": value}]),
        (["null", record, "string"], lambda value: ("Part", {"part": value})),
    ]


_INFINITE = [1e300, -1e300, 2.0**128, np.float64(1e39), 10**39]
_LARGEST = 3.4028235677973362e38
_REFUSED: list[tuple[Any, list[Any], Any, Any, str]] = [
    (_MILLIS, [_NOON], _UTC, TypeError, r"'x' takes a time with a time zone.*replace\(tzinfo=UTC\)"),
    ("float", _INFINITE, _LARGEST, OverflowError, r"'x' takes a 32-bit float.*declare a double"),
]


@pytest.mark.parametrize("codec", _CODECS)
@pytest.mark.parametrize(("type_", "refused", "taken", "error", "message"), _REFUSED, ids=["naive", "infinite"])
def test_naive_times_and_infinite_numbers_are_refused_by_every_codec(
    codec: str, type_: Any, refused: list[Any], taken: Any, error: Any, message: str
) -> None:
    for avro_type, wrapped in _around(type_):
        encoder = payload_codec(declare({"x": avro_type}, codec=codec))
        for value in refused:
            with pytest.raises(error, match=message):
                encoder.row((wrapped(value),))
        if codec != "json" or type_ is not _MILLIS:
            encode_tuples(encoder, [(wrapped(taken),)])


def test_json_has_no_times() -> None:
    for type_ in (str, _MILLIS):
        with pytest.raises(TypeError, match=r"JSON has no type for times: pass text, such as value\.isoformat\(\)"):
            payload_codec(declare({"at": type_}, codec="json")).row((_UTC,))


def test_columns_are_refused_as_values_are() -> None:
    times, numbers = PackCodec(declare({"at": _MILLIS})), PackCodec(declare({"x": ["null", "float"]}))
    with pytest.raises(TypeError, match="'at' takes a time with a time zone"):
        times.batch({"at": [_NOON]})
    batch = times.batch({"at": pa.array([_NOON], pa.timestamp("us", "Europe/Berlin"))})
    assert batch.column("at").type == pa.timestamp("ms", "UTC")
    with pytest.raises(OverflowError, match="'x' takes a 32-bit float"):
        numbers.batch({"x": [1.0, None, 1e300]})
    assert numbers.batch({"x": [1.0, None, float("inf")]}).column("x").to_pylist() == [1.0, None, float("inf")]


def test_what_a_32_bit_float_has_passes_and_is_a_row_as_it_is() -> None:
    codec = PackCodec(declare({"x": "float"}))
    for number in (float("inf"), float("-inf"), 0.0, _LARGEST):
        assert codec.is_row((number,))
        assert decode_tuples(codec, codec.encode([(number,)])) == [(np.float32(number),)]
    assert codec.is_row((float("nan"),))
    assert not codec.is_row((1e300,))


_SCALARS: list[tuple[Any, Any, Any]] = [
    ("long", np.int64(-7), -7),
    ("long", np.uint8(7), 7),
    ("int", np.int16(7), 7),
    ("boolean", np.bool_(True), True),
    ("string", np.str_("grün"), "grün"),
    (["null", "long"], np.int32(3), 3),
    ("double", np.float32(1.5), 1.5),
    ("float", np.float64(1.5), 1.5),
    ("double", np.longdouble(1.5), 1.5),
    ({"type": "array", "items": ["boolean", "long"]}, [np.int64(1)], [1]),
]


@pytest.mark.parametrize("codec", _CODECS)
@pytest.mark.parametrize(("avro_type", "scalar", "value"), _SCALARS)
def test_a_numpy_scalar_is_the_value_of_python_in_every_codec_and_key(
    codec: str, avro_type: Any, scalar: Any, value: Any
) -> None:
    encoder = payload_codec(declare({"a": avro_type}, codec=codec))
    payload = encode_tuples(encoder, [(scalar,)])
    assert payload == encode_tuples(encoder, [(value,)])
    assert decode_tuples(encoder, payload) == [(value,)]
    if not isinstance(value, float | list):
        assert grouping_key((scalar,)) == grouping_key((value,))
        assert grouping_key((scalar, 1)) == grouping_key((value, 1))
        assert fields_task(grouping_key((scalar,)), 1000) == fields_task(grouping_key((value,)), 1000)


_NUMPY = [np.timedelta64(5, "ns"), np.datetime64("2026-01-01", "ns"), np.complex128(1)]
_PAIRS: dict[str, list[Any]] = {
    "arrow": [
        ("a",),
        ("a", 1, 2),
        ("a", "b"),
        ("a", True),
        ("a", 1.0),
        (b"a", 1),
        (None, 1),
        ("a", 2**63),
        ("\ud800", 1),
    ],
    "avro": [("a",), ("a", 1, 2), ("a", "b"), (None, 1), ("a", 2**63)],
    "json": [("a",), ("a", object()), ("a", float("nan")), ("a", float("inf")), ("a", b"raw")],
}
_UNFIT = [("long", 1.5), ("long", True), ("int", 2**31), ("boolean", 1), ("boolean", "x"), (_MILLIS, 5)]


@pytest.mark.parametrize("codec", _CODECS)
def test_values_that_do_not_fit(codec: str) -> None:
    pairs, number = (payload_codec(declare(fields, codec=codec)) for fields in ({"a": str, "b": int}, {"a": int}))
    cases = [*((pairs, values) for values in _PAIRS[codec]), *((number, (scalar,)) for scalar in _NUMPY)]
    if codec != "json":
        cases += [(payload_codec(declare({"a": type_}, codec=codec)), (value,)) for type_, value in _UNFIT]
    for encoder, values in cases:
        with pytest.raises((ValueError, TypeError, OverflowError)):
            encoder.row(values)
    for values in ((), ("text",), (b"a", b"b")):
        with pytest.raises((ValueError, TypeError)):
            encode_tuples(payload_codec(declare(["raw"], codec="bytes")), [values])
    with pytest.raises(TypeError, match=r"a numpy\.timedelta64 is not a number"):
        grouping_key((_NUMPY[0],))


@pytest.mark.parametrize("codec", ["arrow", "avro"])
def test_a_field_may_have_a_type_that_an_earlier_field_names(codec: str) -> None:
    tree = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "color", "type": "paint.Color"}, {"name": "next", "type": ["null", "Node"]}],
    }
    fields = {"a": _COLOR, "b": "paint.Color", "c": {"type": "array", "items": "paint.Color"}, "d": tree, "e": "Node"}
    encoder = payload_codec(declare(fields, codec=codec))
    leaf = {"color": "red", "next": None}
    row = ("red", "blue", ["red", "blue"], {"color": "blue", "next": leaf}, leaf)
    assert decode_tuples(encoder, encode_tuples(encoder, [row])) == [row]
    with pytest.raises(Exception, match=r"green|not in list"):
        encoder.row(("red", "green", [], leaf, leaf))
