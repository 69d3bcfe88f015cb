"""The manifest: round trips, and everything that can be wrong with one."""

import json
from typing import Any

import pytest

from tuple_tree.errors import ManifestError
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest, Subscription
from tuple_tree.streams import declare

_WORDS = declare({"word": str, "count": int})
_LINES = SpoutManifest(name="lines", tasks=2, streams=(_WORDS,))


def _bolt(name: str = "count", tasks: int = 1, **subscription: Any) -> BoltManifest:
    wanted = {"source": "lines", "stream": "default", "grouping": "shuffle", **subscription}
    return BoltManifest(name=name, tasks=tasks, subscriptions=(Subscription(**wanted),))


def _manifest(**changes: Any) -> Manifest:
    settings = {"topology": "words", "max_tree_age_ms": 300_000, "components": (_LINES, _bolt())}
    return Manifest.of(**{**settings, **changes})


def test_the_published_form() -> None:
    """Read by other languages: a change here is a change of the wire contract."""
    fields = [{"name": "word", "type": "string"}, {"name": "count", "type": "long"}]
    stream = {"name": "default", "fields": fields, "codec": "arrow", "direct": False}
    subscription = {"source": "lines", "stream": "default", "grouping": "shuffle", "fields": []}
    settings = {"timeout_ms": 30_000, "max_pending": 10_000}
    lines = {"kind": "spout", "name": "lines", "tasks": 2, "streams": [stream], **settings, "external": False}
    count = {"kind": "bolt", "name": "count", "tasks": 1, "streams": [], "subscriptions": [subscription]}
    assert json.loads(_manifest().to_json()) == {
        "version": 1,
        "topology": "words",
        "guarantee": "at_least_once",
        "ack_partitions": 8,
        "tick_ms": 1000,
        "max_tree_age_ms": 300_000,
        "components": [lines, {**count, "external": False}],
    }


def test_json_round_trip() -> None:
    stream = declare({"tags": {"type": "array", "items": "string"}, "maybe": ["null", "long"]}, codec="json")
    manifest = _manifest(
        guarantee="exactly_once",
        ack_partitions=3,
        tick_ms=7,
        max_tree_age_ms=30_000,
        components=(
            SpoutManifest(name="lines", streams=(_WORDS, declare(["raw"], "raw", "bytes")), max_pending=5, tasks=2),
            SpoutManifest(name="more", tasks=9, streams=(stream,), timeout_ms=77, external=True),
            _bolt(grouping="fields", fields=("word",), tasks=4),
            BoltManifest(
                name="cycle",
                streams=(_WORDS,),
                subscriptions=(
                    Subscription(source="lines", stream="raw", grouping="all"),
                    Subscription(source="cycle", stream="default", grouping="shuffle"),
                ),
            ),
        ),
    )
    assert Manifest.from_json(manifest.to_json()) == manifest


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
