"""What of a topology is left on a cluster is found by its manifest, and by names."""

import pytest

from acker_cli.topology_removal import Remains, remains_of
from acker_cli.topology_views import to_be_deleted
from tests.unit.acker_worker.test_served import manifest_of
from tuple_tree.errors import ManifestError

TOPICS = ("words.acks", "words.dead-letters", "words.notices.lines", "words.stats", "words.tuples.count")
GROUPS = ("words.acker", "words.count", "words.lines")
OTHERS = (
    "acker.topologies",
    "words",
    "words-2.acks",
    "words.reports",
    "words.tuples",
    "words.tuples.a.b",
    "words.tuples.1",
    "more.words.acks",
    "sentences.tuples.count",
)


def test_all_of_it() -> None:
    remains = remains_of("words", {"words": manifest_of()}, {*TOPICS, *OTHERS})
    assert remains == Remains("words", is_published=True, groups=GROUPS, topics=TOPICS)
    assert remains


def test_what_an_interrupted_deletion_has_left() -> None:
    assert remains_of("words", {}, {"words.tuples.count", *OTHERS}) == Remains(
        "words", is_published=False, groups=("words.acker", "words.count"), topics=("words.tuples.count",)
    )
    only_the_manifest = remains_of("words", {"words": manifest_of()}, OTHERS)
    assert (only_the_manifest.topics, bool(only_the_manifest)) == ((), True)
    assert not remains_of("words", {}, OTHERS)


def test_what_is_of_components_that_the_manifest_no_longer_has() -> None:
    remains = remains_of("words", {"words": manifest_of()}, {*TOPICS, "words.tuples.old", "words.replay.lines"})
    assert set(remains.topics) == {*TOPICS, "words.tuples.old", "words.replay.lines"}
    assert remains.groups == (*GROUPS, "words.old")


def test_a_manifest_that_cannot_be_read_is_no_obstacle() -> None:
    remains = remains_of("words", {"words": ManifestError("no")}, TOPICS)
    assert (remains.is_published, remains.groups, remains.topics) == (True, GROUPS, TOPICS)


@pytest.mark.parametrize("keep_topics", [False, True])
def test_what_is_deleted_is_said_before(keep_topics: bool) -> None:
    remains = remains_of("words", {"words": manifest_of()}, TOPICS)
    said = "\n".join(to_be_deleted(remains, keep_topics=keep_topics))
    assert "its manifest in acker.topologies" in said
    for name in (*TOPICS, *GROUPS):
        assert (name in said.split() or f"{name}," in said.split()) is not keep_topics
