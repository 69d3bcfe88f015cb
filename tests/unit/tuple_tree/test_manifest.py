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
    assert json.loads(_manifest().to_json()) == {
        "version": 1,
        "topology": "words",
        "guarantee": "at_least_once",
        "ack_partitions": 8,
        "tick_ms": 1000,
        "max_tree_age_ms": 300_000,
        "components": [
            {
                "kind": "spout",
                "name": "lines",
                "tasks": 2,
                "streams": [
                    {
                        "name": "default",
                        "fields": [{"name": "word", "type": "string"}, {"name": "count", "type": "long"}],
                        "codec": "avro",
                        "direct": False,
                    }
                ],
                "timeout_ms": 30_000,
                "max_pending": 10_000,
                "external": False,
            },
            {
                "kind": "bolt",
                "name": "count",
                "tasks": 1,
                "streams": [],
                "subscriptions": [{"source": "lines", "stream": "default", "grouping": "shuffle", "fields": []}],
                "external": False,
            },
        ],
    }


def test_json_round_trip() -> None:
    stream = declare({"tags": {"type": "array", "items": "string"}, "maybe": ["null", "long"]}, codec="json")
    manifest = _manifest(
        guarantee="exactly_once",
        ack_partitions=3,
        tick_ms=7,
        components=(
            SpoutManifest(name="lines", streams=(_WORDS, declare(["raw"], "raw", "bytes")), max_pending=5, tasks=2),
            SpoutManifest(name="more", tasks=9, streams=(stream,), timeout_ms=77, external=True),
            _bolt(grouping="fields", fields=("word",), tasks=4),
            _bolt("all", stream="raw", grouping="all"),
        ),
    )
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_cycles_are_allowed() -> None:
    looping = BoltManifest(
        name="again",
        streams=(_WORDS,),
        subscriptions=(
            Subscription(source="lines", stream="default", grouping="shuffle"),
            Subscription(source="again", stream="default", grouping="fields", fields=("word",)),
        ),
    )
    assert _manifest(components=(_LINES, looping)).bolts == (looping,)


def test_components_are_found_by_name() -> None:
    manifest = _manifest()
    assert manifest.component("lines") is manifest.spouts[0]
    assert manifest.component("count") is manifest.bolts[0]
    assert manifest.stream("lines", "default") == _WORDS
    with pytest.raises(ValueError, match="no component 'liens': it has lines, count"):
        manifest.component("liens")
    with pytest.raises(ValueError, match="component 'lines' has no stream 'other': it declares default"):
        manifest.stream("lines", "other")
    with pytest.raises(ValueError, match="it declares none"):
        manifest.stream("count", "default")


_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"topology": "a.b"}, "topology name 'a.b' cannot be used: it must start with a letter"),
    ({"components": (SpoutManifest(name="9"),)}, "component name '9' cannot be used: it must start"),
    ({"components": (SpoutManifest(name="acker"),)}, "'acker' is taken by the ackers' consumer group: choose"),
    ({"components": (_LINES, _bolt("lines"))}, "two components are named 'lines': names must be unique"),
    (
        {"components": (SpoutManifest(name="lines", streams=(_WORDS, _WORDS)),)},
        "component 'lines' has two streams 'default': give one another name",
    ),
    ({"components": (_LINES, _bolt(source="nobody"))}, "no component 'nobody': it has lines, count"),
    ({"components": (_LINES, _bolt(stream="other"))}, "no stream 'other': it declares default"),
    ({"components": (_LINES, _bolt(grouping="fields"))}, "groups 'lines' by fields, but names none"),
    (
        {"components": (_LINES, _bolt(grouping="fields", fields=("letter",)))},
        "'letter', which stream 'default' of 'lines' does not have: it has word, count",
    ),
    ({"max_tree_age_ms": 29_999}, "spout 'lines', 30000 ms, exceeds .* 29999 ms: raise max_tree_age"),
    ({"ack_partitions": 0}, "^ack_partitions: .* greater than or equal to 1$"),
    ({"tick_ms": 0}, "tick_ms"),
    ({"tick_ms": 1}, "262,142 ticks of 1 ms: make the tick longer"),
    ({"version": 2}, "version"),
    ({"colour": "red"}, "colour: Extra inputs are not permitted"),
    ({"components": ({"kind": "blob", "name": "x"},)}, "components.0: .*'kind'.*'spout', 'bolt'"),
    ({"components": ({"name": "x"},)}, "components.0: .*'kind'"),
    ({"components": ({"kind": "spout", "name": "x", "tasks": 0},)}, r"^components\.0\.spout\.tasks: [^;]*$"),
]


def test_what_does_not_describe_a_topology_is_said_in_one_line() -> None:
    for changes, complaint in _REFUSED:
        with pytest.raises(ManifestError, match=complaint) as raised:
            _manifest(**changes)
        assert "\n" not in str(raised.value)


def test_a_timeout_as_long_as_the_largest_tree_age_is_allowed() -> None:
    assert _manifest(max_tree_age_ms=30_000).max_tree_age_ms == 30_000


def _published(**changes: Any) -> bytes:
    return json.dumps({**json.loads(_manifest().to_json()), **changes}).encode()


def _with_more_in_a_stream() -> bytes:
    said = json.loads(_manifest().to_json())
    said["components"][0]["streams"][0]["colour"] = "red"
    return json.dumps(said).encode()


def test_what_is_no_manifest_of_this_version_is_refused() -> None:
    values = [b"", b"{", b"\xff", b"null", b"[]", b"[" * 100_000, _with_more_in_a_stream()]
    changes: list[dict[str, Any]] = [{"version": 2}, {"colour": "red"}, {"topology": "a.b"}, {"components": 7}]
    for value in (*values, *(_published(**changed) for changed in changes)):
        with pytest.raises(ManifestError, match=r"; publish the topology again with this version$") as raised:
            Manifest.from_json(value)
        assert "\n" not in str(raised.value)
