"""The topics and groups of a topology on a cluster are found by its manifest, and by names."""

from acker_cli.cluster.removal import TopologyResources, resources_of
from tests.manifests import chained, manifest, spout
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


def test_a_removal_covers_one_topology_only() -> None:
    resources = resources_of("words", {"words": manifest_of()}, {*TOPICS, *OTHERS})
    assert resources == TopologyResources("words", is_published=True, groups=GROUPS, topics=TOPICS)
    assert resources
    unreadable = resources_of("words", {"words": ManifestError("no")}, TOPICS)
    assert unreadable == resources
    # Of components that an earlier manifest had.
    more = {"words.tuples.old", "words.replay.lines", "words.results.old", "words.answers"}
    older = resources_of("words", {"words": manifest_of()}, {*TOPICS, *more})
    assert set(older.topics) == {*TOPICS, *more}
    assert older.groups == (*GROUPS, "words.old")


def test_chained_bolts_have_neither_group_nor_inbox() -> None:
    made = manifest(spout("lines"), chained("parse", "lines"))
    assert resources_of("words", {"words": made}, TOPICS[:4]).groups == ("words.acker", "words.lines")
