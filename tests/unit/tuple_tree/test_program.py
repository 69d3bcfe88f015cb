"""Two programs of one name: which code may run beside a published manifest."""

import pytest

from tests.manifests import bolt, chained, manifest, spout
from tuple_tree.components import Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.program import are_strangers, differences, fingerprint
from tuple_tree.streams import declare

PUBLISHED = manifest(spout("a"), bolt("b", "a", streams=(declare(["word"]),)), bolt("c", "b"))


def grouped(name: str, source: str, *fields: str) -> Manifest:
    subscription = Subscription(source=source, stream="default", grouping="fields", fields=fields)
    changed = bolt(name).model_copy(update={"subscriptions": (subscription,)})
    components = (changed if each.name == name else each for each in PUBLISHED.components)
    return manifest(*components)


def test_a_fingerprint_follows_streams_and_groupings_and_no_settings() -> None:
    one = fingerprint(PUBLISHED)
    assert one == fingerprint(manifest(*PUBLISHED.components, tick_ms=500, max_tree_age_ms=900_000))
    assert one == fingerprint(manifest(*reversed(PUBLISHED.components)))
    others = [
        grouped("c", "b", "word"),
        manifest(spout("a", {"word": int}), *PUBLISHED.components[1:]),
        manifest(*PUBLISHED.components[:2]),
        manifest(*PUBLISHED.components, guarantee="exactly_once"),
    ]
    assert len({one, *map(fingerprint, others)}) == 5


def test_programs_without_a_common_component_are_strangers() -> None:
    assert are_strangers(PUBLISHED, manifest(spout("x"), bolt("y", "x")))
    assert not are_strangers(PUBLISHED, manifest(spout("x"), bolt("b", "x")))


@pytest.mark.parametrize(
    ("own", "component", "words"),
    [
        (manifest(spout("x"), bolt("y", "x")), "y", "it has no component 'y'"),
        (manifest(spout("b"), bolt("a", "b")), "a", "its 'a' is a spout"),
        (
            manifest(spout("a", {"word": int}), bolt("b", "a")),
            "a",
            "its stream 'default' of 'a' has word: string (arrow)",
        ),
        (
            manifest(spout("a", {"word": int}), bolt("b", "a")),
            "b",
            "its stream 'default' of 'a' has word: string (arrow)",
        ),
        (grouped("c", "b", "word"), "c", "its 'c' receives stream 'default' of 'b' by a shuffle grouping"),
        (grouped("c", "b", "word"), "b", "its 'c' receives stream 'default' of 'b' by a shuffle grouping"),
        (
            manifest(spout("a"), chained("b", "a")),
            "a",
            "its 'b' receives stream 'default' of 'a' by a shuffle grouping",
        ),
    ],
)
def test_code_with_other_streams_or_groupings_must_not_run(own: Manifest, component: str, words: str) -> None:
    assert words in differences(own, PUBLISHED, component)
    assert words in differences(own, PUBLISHED)


def test_what_does_not_concern_a_component_is_no_difference() -> None:
    assert differences(grouped("c", "b", "word"), PUBLISHED, "a") == []


def test_earlier_code_runs_beside_a_manifest_with_more_streams_and_bolts() -> None:
    """A change is published, and then processes are restarted; one may be started again in between."""
    exact = declare({"word": str, "more": int}, "exact")
    more = manifest(spout("a"), bolt("b", "a", streams=(declare(["word"]), exact)), bolt("c", "b"), bolt("audit", "b"))
    for component in ("a", "b", "c", None):
        assert differences(PUBLISHED, more, component) == []
    assert differences(more, PUBLISHED, "b") == []
    assert differences(PUBLISHED, PUBLISHED) == []
