"""Records of a changelog: keys, values, and what describes it."""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manifests import bolt, counting, manifest, spout
from tuple_tree.components import WINDOW_START
from tuple_tree.errors import StateRecordError, VersionError
from tuple_tree.routing import fields_task, grouping_key
from tuple_tree.state_records import ABOUT_KEY, SYSTEM_PREFIX, About, KeyCodec, ValueCodec, is_system, state_of, task_of
from tuple_tree.streams import Field, declare

_TOTALS = {"orders": int, "euros": float, "name": str, "is_new": bool}
_EVERYTHING = {
    "text": "string",
    "raw": "bytes",
    "small": "int",
    "real": "float",
    "maybe": ["null", "long"],
    "tags": {"type": "array", "items": "string"},
    "counts": {"type": "map", "values": "long"},
    "colour": {"type": "enum", "name": "Colour", "symbols": ["red", "green"]},
    "point": {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}]},
    "hash": {"type": "fixed", "name": "Hash", "size": 2},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
}


def _keys(**types: Any) -> KeyCodec:
    return KeyCodec([Field(name=name, type=kind) for name, kind in types.items()])


def _values(fields: Any, codec: str = "json", *, is_single: bool = False) -> ValueCodec:
    return ValueCodec(declare(fields, "value", codec), is_single=is_single)


@given(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_characters="\x1f")),
        st.integers(-(2**63), 2**63 - 1),
        st.booleans(),
        st.none() | st.integers(-9, 9),
    )
)
def test_keys_are_grouping_keys_and_are_read_back(values: tuple[Any, ...]) -> None:
    codec = _keys(name="string", number="long", flag="boolean", maybe=["null", "long"])
    key = codec.encode(values)
    assert key == grouping_key(values)
    assert codec.decode(key) == values
    assert codec.parse([key_part.decode() for key_part in key.split(b"\x1f")]) == key


def test_keys_that_cannot_be_stored_or_read() -> None:
    two, raw, word = _keys(name="string", number="long"), _keys(raw="bytes"), _keys(word="string")
    assert raw.decode(raw.encode((b"a\x1fb",))) == (b"a\x1fb",), "of one field it may have any bytes"
    assert raw.parse(["0xff00"]) == b"\xff\x00"
    assert word.encode(("né\x1f",)) == "né\x1f".encode()
    refused: list[tuple[Any, Any, str]] = [
        (two.encode, ("a\x1fb", 1), "has the byte 0x1f within a value"),
        (two.encode, ("a",), r"a key is one value for each field \(name, number\), not 1"),
        (two.encode, ("a", "1"), "the key's field 'number' takes int64, not str"),
        (word.encode, ("\ud800",), "the key's 'utf-8' codec"),
        (raw.encode, (ABOUT_KEY,), "begins as the keys of the SDK's own records"),
        (two.parse, ["a"], "a key is one value for each field"),
        (two.parse, ["a", "b"], "is not of the fields name: string, number: long"),
    ]
    for call, values, complaint in refused:
        with pytest.raises(TypeError, match=complaint):
            call(values)
    for key in (b"a", b"a\x1fb\x1fc", b"a\x1fx", b"\xff\x1f1"):
        with pytest.raises(StateRecordError, match="bad-state-record: the key"):
            two.decode(key)
    with pytest.raises(ValueError, match="field 'x' of type double: it must be text, bytes, an integer"):
        _keys(x="double")


@pytest.mark.parametrize("codec", ["json", "avro"])
def test_values_are_read_back(codec: str) -> None:
    values = _values(_TOTALS, codec)
    totals = [
        {"orders": 3, "euros": 1.5, "name": 'a"é\n', "is_new": True},
        {"orders": -(2**63), "euros": 1e300, "name": "", "is_new": False},
        values.initial(),
    ]
    payloads = [values.encode(total) for total in totals]
    assert [values.decode(payload) for payload in payloads] == totals
    assert [values.encode_row(tuple(total.values())) for total in totals] == payloads
    assert values.initial() == {"orders": 0, "euros": 0.0, "name": "", "is_new": False}
    if codec == "json":
        assert [json.loads(payload) for payload in payloads] == totals, "any JSON tool can read it"


@pytest.mark.parametrize("codec", ["json", "avro"])
def test_a_single_value_is_written_alone(codec: str) -> None:
    for kind, value in ((int, 7), (str, "é"), (["null", "string"], None), ({"type": "array", "items": "long"}, [1, 2])):
        values = _values({"value": kind}, codec, is_single=True)
        payloads = [values.encode(value), values.encode(values.initial())]
        assert [values.decode(payload) for payload in payloads] == [value, values.initial()]
        assert codec != "json" or json.loads(payloads[0]) == value


def test_initial_values_of_all_types_are_written_and_are_made_anew() -> None:
    values = _values(_EVERYTHING, "avro")
    first = values.initial()
    assert first["colour"] == "red"
    assert first["point"] == {"x": 0.0}
    assert (first["at"].year, first["day"], first["hash"]) == (1970, datetime.date(1970, 1, 1), b"\0\0")
    assert values.decode(values.encode(first)) == first
    first["tags"].append("x")
    assert values.initial()["tags"] == []


_GOOD = {"orders": 1, "euros": 1.0, "name": "", "is_new": True}
_DECLARED = "declared are orders: long, euros: double, name: string, is_new: boolean"
_ARRAY = {"type": "array", "items": "long"}
_UNFIT: list[tuple[dict[str, Any], Any, str]] = [
    (_TOTALS, {**_GOOD, "orders": "x"}, r"'orders' of the state is declared as long, and 'x' \(str\) does not fit"),
    (_TOTALS, {**_GOOD, "orders": 2**63}, "field 'orders' of the state is declared as long"),
    (_TOTALS, {**_GOOD, "orders": True}, r"declared as long, and True \(bool\) does not fit"),
    (_TOTALS, {**_GOOD, "euros": float("nan")}, r"declared as double, and nan \(float\) does not fit"),
    (_TOTALS, {**_GOOD, "name": "\ud800"}, "field 'name' of the state is declared as string"),
    (_TOTALS, {**_GOOD, "other": 1}, f"a value of the state has the unknown field 'other': {_DECLARED}"),
    (_TOTALS, {"orders": 1}, f"a value of the state lacks the field 'euros': {_DECLARED}"),
    (_TOTALS, 5, "a value of the state is a mapping with the fields orders: long, .*, not int"),
    ({"raw": bytes}, {"raw": b""}, "declared as bytes.* JSON has no type for a bytes: declare the state with codec"),
    ({"tags": _ARRAY}, {"tags": ["x"]}, r'declared as \{"type": "array", "items": "long"\}'),
]


@pytest.mark.parametrize(("fields", "value", "complaint"), _UNFIT)
def test_values_that_do_not_fit_are_refused_with_field_and_declaration(fields: Any, value: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        _values(fields).encode(value)


def test_a_whole_number_is_a_double_as_in_the_codecs_of_streams() -> None:
    assert _values(_TOTALS).encode({**_GOOD, "euros": 1}) == _values(_TOTALS).encode(_GOOD)


def test_payloads_that_cannot_be_read() -> None:
    values = _values({"count": int})
    good = values.encode({"count": 1})
    for bad in (b"", b"{", b"[]", b'{"other":1}', good + b"," + good, b"\xff"):
        with pytest.raises(StateRecordError, match="is not JSON with the fields count: long"):
            values.decode(bad)
    with pytest.raises(StateRecordError, match=r"is not Avro with the fields count: long.*1 bytes follow"):
        _values({"count": int}, "avro").decode(b"\x02\x02")


def test_a_changelog_is_described() -> None:
    states = manifest(spout("lines"), counting("count", "lines"), bolt("other", "lines"))
    about = About.of(states, "count", {"lines": {"in": "id-1"}})
    assert About.from_json(about.to_json()) == about
    assert about.difference(About.of(states, "count")) == "", "sources may change"
    renamed = About.of(manifest(spout("lines"), counting("count", "lines"), topology="other"), "count")
    assert about.difference(renamed) == "it is of bolt 'count' of topology 'words'"
    for changes, difference in (
        ({"key": (Field(name="page"),)}, "its keys are word: string, and the manifest has page: string"),
        (
            {"value": declare({"n": int}, "value", "avro")},
            r"its values are count: long (json), and the manifest has n: ",
        ),
        ({"is_single": True}, "its values are count: long (json), and the manifest has one value, count: long (json)"),
    ):
        parts = {name: getattr(about, name) for name in About.__slots__}
        assert about.difference(About(**{**parts, **changes})).startswith(difference)
    later = about.to_json().replace(b'"version":1', b'"version":2')
    with pytest.raises(VersionError, match="the changelog is of version 2, and this is version 1"):
        About.from_json(later)
    for bad in (None, b"", b"[]", b'{"version":1}', b"\xff"):
        with pytest.raises(StateRecordError, match="bad-state-record"):
            About.from_json(bad)
    with pytest.raises(ValueError, match="'other' of topology 'words' has no state: count has one"):
        state_of(states, "other")
    assert is_system(ABOUT_KEY)
    assert is_system(SYSTEM_PREFIX)
    assert not is_system(b"word")


def test_sources_whose_positions_are_of_other_messages_now() -> None:
    """A renamed spout, and one behind the others, changes no position."""

    def about(spouts: Sequence[str], **sources: Mapping[str, str]) -> About:
        return About.of(manifest(*map(spout, spouts), counting("count", "lines")), "count", sources)

    written = about(["lines", "b"], lines={"in": "id-1", "more": "id-2"}, b={"x": "id-3"})
    assert About.from_json(written.to_json()) == written
    same = about(["lines", "c", "b"], lines={"in": "id-1", "more": "id-2"}, c={"x": "id-3"}, b={"new": "id-4"})
    assert written.changed_sources(same) == {}
    assert written.changed_sources(about(["lines"], lines={"in": "id-1", "more": "id-2"})) == {}
    assert written.changed_sources(about(["lines"])) == {}, "their ids are not known"
    made_anew = written.changed_sources(about(["lines"], lines={"in": "id-9", "more": "id-2"}))
    assert made_anew == {"lines": ("in", "was deleted and created again: its id was id-1, and is id-9")}
    for topics in ({"more": "id-2", "in": "id-1"}, {"in": "id-1"}, {"in": "id-1", "more": "id-2", "z": "id-4"}):
        ((topic, problem),) = written.changed_sources(about(["lines"], lines=topics)).values()
        assert topic in topics
        assert problem.startswith("is read by spout number 0 of the topology, which reads ")
        assert problem.endswith(": it read in, more before")
    moved = written.changed_sources(about(["first", "lines", "b"], first={"y": "id-5"}, lines=written.sources["lines"]))
    assert {spout: topic for spout, (topic, _) in moved.items()} == {"first": "y", "lines": "in"}


def test_a_key_of_a_window_is_that_of_the_task_of_its_fields_grouping() -> None:
    state = state_of(manifest(spout("lines"), counting("count", "lines")), "count")
    assert {task_of(state, b"%d" % number, 7) for number in range(50)} == set(range(7))
    windows = state.model_copy(update={"windows": "close", "key": (*state.key, WINDOW_START)})
    key = KeyCodec(windows.key).encode(("page", 60_000))
    assert task_of(windows, key, 7) == task_of(state, b"page", 7) == fields_task(b"page", 7)
