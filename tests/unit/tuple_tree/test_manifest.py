"""The manifest: round trips, and everything that can be wrong with one."""

import json
from typing import Any

import pytest

from tuple_tree.components import BoltManifest, SpoutManifest, StateManifest, Subscription
from tuple_tree.errors import ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.streams import Field, declare

_WORDS = declare({"word": str, "count": int})
_LINES = SpoutManifest(name="lines", tasks=2, streams=(_WORDS,))


def _bolt(name: str = "count", tasks: int = 1, **subscription: Any) -> BoltManifest:
    wanted = {"source": "lines", "stream": "default", "grouping": "shuffle", **subscription}
    return BoltManifest(name=name, tasks=tasks, subscriptions=(Subscription(**wanted),))


def _manifest(**changes: Any) -> Manifest:
    settings = {"topology": "words", "max_tree_age_ms": 300_000, "components": (_LINES, _bolt())}
    return Manifest.of(**{**settings, **changes})


_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"topology": "a.b"}, "topology name 'a.b' cannot be used: it must start with a letter"),
    ({"components": (SpoutManifest(name="9"),)}, "component name '9' cannot be used: it must start"),
    ({"components": (SpoutManifest(name="acker"),)}, "'acker' is taken by the ackers' consumer group: choose"),
    ({"components": (_LINES, _bolt("lines"))}, "two components are named 'lines': names must be unique"),
    (
        {"components": (SpoutManifest(name="lines", streams=(_WORDS, _WORDS)),)},
        "component 'lines' has two streams 'default': give one another name",
    ),
    ({"components": (_LINES, _bolt(source="missing"))}, "no component 'missing': it has lines, count"),
    ({"components": (_LINES, _bolt(stream="other"))}, "no stream 'other': it declares default"),
    ({"components": (_LINES, _bolt(grouping="fields"))}, "groups 'lines' by fields, but names none"),
    (
        {"components": (_LINES, _bolt(grouping="fields", fields=("letter",)))},
        "'letter', which stream 'default' of 'lines' does not have: it has word, count",
    ),
    ({"max_tree_age_ms": 29_999}, "spout 'lines', 30000 ms, exceeds .* 29999 ms: raise max_tree_age"),
    ({"ack_partitions": 0}, "^ack_partitions: .* greater than or equal to 1$"),
    ({"tick_ms": 1}, "262,142 ticks of 1 ms: make the tick longer"),
    ({"colour": "red"}, "colour: Extra inputs are not permitted"),
    ({"components": ({"kind": "blob", "name": "x"},)}, "components.0: .*'kind'.*'spout', 'bolt'"),
    ({"components": ({"kind": "spout", "name": "x", "tasks": 0},)}, r"^components\.0\.spout\.tasks: [^;]*$"),
]


def test_an_invalid_topology_reference_is_a_one_line_error() -> None:
    for changes, complaint in _REFUSED:
        with pytest.raises(ManifestError, match=complaint) as raised:
            _manifest(**changes)
        assert "\n" not in str(raised.value)


def test_manifests_of_other_versions_are_rejected() -> None:
    published = _manifest().to_json()
    changes = (
        (b'"version":1', b'"version":2'),
        (b'"codec":', b'"colour":"red","codec":'),
        (b'"words"', b'"a.b"'),
        (b'"grouping":"shuffle"', b'"grouping":"of_a_later_version"'),
    )
    changed = [published.replace(*change) for change in changes]
    assert published not in changed
    for value in (b"", b"\xff", b"null", b"[" * 100_000, *changed):
        with pytest.raises(ManifestError, match=r"; publish the topology again with this version$") as raised:
            Manifest.from_json(value)
        assert "\n" not in str(raised.value)


def _state(*key: str, **changes: Any) -> StateManifest:
    fields = tuple(Field(name=name) for name in key or ("word",))
    return StateManifest(**{"value": declare({"count": int}, "value", "json"), "key": fields, **changes})


def _stateful(state: StateManifest, **changes: Any) -> BoltManifest:
    words = Subscription(source="lines", stream="default", grouping="fields", fields=("word",))
    return BoltManifest(**{"name": "count", "subscriptions": (words,), "state": state, **changes})


def test_a_bolt_with_a_state_is_published_with_it_and_works_in_transactions() -> None:
    for guarantee in ("at_most_once", "at_least_once", "exactly_once"):
        manifest = _manifest(guarantee=guarantee, components=(_LINES, _stateful(_state(expire_after_ms=5)), _bolt("b")))
        assert Manifest.from_json(manifest.to_json()) == manifest
        _, count, other = json.loads(manifest.to_json())["components"]
        assert count["state"] == {
            "value": {
                "name": "value",
                "fields": [{"name": "count", "type": "long"}],
                "codec": "json",
                "direct": False,
            },
            "is_single": False,
            "key": [{"name": "word", "type": "string"}],
            "expire_after_ms": 5,
            "windows": None,
        }
        assert "state" not in other
        assert manifest.has_transactions
        guarantees = {each.name: manifest.guarantee_of(each.name) for each in manifest.components}
        assert guarantees == {"lines": guarantee, "count": "exactly_once", "b": guarantee}
    assert not _manifest().has_transactions


def test_states_that_do_not_fit_are_refused() -> None:
    two = declare({"a": int, "b": int}, "value", "json")
    refused: list[tuple[Any, str]] = [
        (lambda: _state(value=declare({"count": int}, "value")), "a state has codec json or avro, not arrow"),
        (lambda: _state(value=declare({"count": int}, "other", "json")), "a state is a stream 'value'"),
        (lambda: _state(value=two, is_single=True), "a state of one value has one field, not a, b"),
        (lambda: _stateful(_state(windows="close")), "the last field of the key of windows is window_start, a long"),
        (lambda: _stateful(_state(), external=True), "bolt 'count' is external, so the SDK cannot keep a state"),
        (lambda: _stateful(_state("count")), "has the key count, but its first subscription groups by word"),
        (lambda: _stateful(_state(), subscriptions=_bolt().subscriptions), "first subscription: use fields_grouping"),
        (lambda: _stateful(_state(), subscriptions=()), "first subscription: use fields_grouping"),
    ]
    for made, complaint in refused:
        with pytest.raises((ValueError, ManifestError), match=complaint):
            _manifest(components=(_LINES, made()))
