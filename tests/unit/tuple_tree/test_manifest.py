"""The manifest: round trips, and everything that can be wrong with one."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuple_tree.errors import ManifestError
from tuple_tree.manifest import BoltManifest, Grouping, Guarantee, Manifest, SpoutManifest, Subscription
from tuple_tree.streams import Stream, declare

_WORDS = declare({"word": str, "count": int})
_LINES = SpoutManifest(name="lines", tasks=2, streams=(_WORDS,))


def _bolt(name: str = "count", tasks: int = 1, **subscription: Any) -> BoltManifest:
    wanted = {"source": "lines", "stream": "default", "grouping": "shuffle", **subscription}
    return BoltManifest(name=name, tasks=tasks, subscriptions=(Subscription(**wanted),))


def _manifest(**changes: Any) -> Manifest:
    settings = {"topology": "words", "max_tree_age_ms": 300_000, "components": (_LINES, _bolt())}
    return Manifest.of(**{**settings, **changes})


def test_defaults() -> None:
    manifest = _manifest()
    assert (manifest.version, manifest.acking, manifest.ack_partitions, manifest.tick_ms) == (1, True, 8, 1000)
    assert (_LINES.timeout_ms, _LINES.max_pending) == (30_000, 10_000)


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


_NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,10}", fullmatch=True).filter(lambda name: name != "acker")
_STREAMS = st.builds(
    Stream,
    name=_NAMES,
    fields=st.just(_WORDS.fields),
    codec=st.sampled_from(["avro", "json"]),
)


@st.composite
def _manifests(draw: st.DrawFn) -> Manifest:
    names = draw(st.lists(_NAMES, min_size=1, max_size=5, unique=True))
    spouts = [
        SpoutManifest(
            name=names[0],
            tasks=draw(st.integers(1, 100)),
            streams=tuple(draw(st.lists(_STREAMS, min_size=1, max_size=2, unique_by=lambda stream: stream.name))),
            timeout_ms=draw(st.integers(1, 10_000)),
            max_pending=draw(st.integers(1, 10**6)),
            external=draw(st.booleans()),
        )
    ]
    choices: list[Grouping] = ["shuffle", "fields", "global", "all"]
    groupings = st.sampled_from(choices)
    bolts = []
    for name in names[1:]:
        grouping: Grouping = draw(groupings)
        fields = ("word",) if grouping == "fields" else ()
        source = spouts[0]
        bolts.append(
            BoltManifest(
                name=name,
                tasks=draw(st.integers(1, 100)),
                subscriptions=(
                    Subscription(source=source.name, stream=source.streams[0].name, grouping=grouping, fields=fields),
                ),
            )
        )
    return Manifest.of(
        topology=draw(_NAMES),
        guarantee=draw(st.sampled_from(get_args(Guarantee))),
        ack_partitions=draw(st.integers(1, 100)),
        tick_ms=draw(st.integers(1, 10_000)),
        max_tree_age_ms=draw(st.integers(10_000, 262_142)),
        components=(*spouts, *bolts),
    )


@given(_manifests())
def test_json_round_trip(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_complex_types_survive_the_round_trip() -> None:
    stream = declare({"tags": {"type": "array", "items": "string"}, "maybe": ["null", "long"]})
    manifest = _manifest(components=(SpoutManifest(name="lines", streams=(stream,)),))
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


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
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
        (
            {
                "components": (
                    {
                        "kind": "bolt",
                        "name": "x",
                        "subscriptions": [{"source": "a", "stream": "b", "grouping": "magic"}],
                    },
                )
            },
            r"grouping: Input should be 'shuffle', .*, 'direct' or 'custom'$",
        ),
    ],
)
def test_what_does_not_describe_a_topology_is_said_in_one_line(changes: dict[str, Any], complaint: str) -> None:
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


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"\xff",
        b"null",
        b"[]",
        b"[" * 100_000,
        _published(version=2),
        _published(colour="red"),
        _published(topology="a.b"),
        _published(components=7),
        _with_more_in_a_stream(),
    ],
)
def test_what_is_no_manifest_of_this_version_is_refused(value: bytes) -> None:
    with pytest.raises(ManifestError, match=r"; publish the topology again with this version$") as raised:
        Manifest.from_json(value)
    assert "\n" not in str(raised.value)
