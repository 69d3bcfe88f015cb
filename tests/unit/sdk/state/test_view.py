"""Views of a state, read from a changelog in memory."""

import pytest

from kafka_clients.errors import TopicsError, UnknownTopologyError
from spout_sdk import StateError, StateView
from spout_sdk.testing.broker import MemoryBroker
from spout_sdk.testing.clients import MemoryClients
from spout_sdk.testing.tasks import LIMITLESS
from tests.manifests import bolt, counting, manifest, spout
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.routing import fields_task
from tuple_tree.state_records import ABOUT_KEY, About
from tuple_tree.topics import topic_specs

_TOPIC = "words.state.count"
_MANIFEST = manifest(spout("lines"), counting("count", "lines", tasks=3), bolt("other", "lines"))


class _Cluster:
    def __init__(self, *, has_changelog: bool = True) -> None:
        specs = [spec for spec in topic_specs(_MANIFEST) if has_changelog or spec.name != _TOPIC]
        self.broker = MemoryBroker(specs, lambda: 123_456)
        self.broker.append(TOPOLOGIES_TOPIC, 0, b"words", _MANIFEST.to_json(), None)
        self.kafka = MemoryClients(self.broker, [0], room=LIMITLESS).settings

    def write(self, **counts: int | None) -> None:
        for word, count in counts.items():
            value = None if count is None else b'{"count":%d}' % count
            self.broker.append(_TOPIC, fields_task(word.encode(), 3), word.encode(), value, None)


def test_a_view_has_the_keys_and_reads_what_is_new() -> None:
    cluster = _Cluster()
    for task in range(3):
        cluster.broker.append(_TOPIC, task, ABOUT_KEY, About.of(_MANIFEST, "count").to_json(), None)
    cluster.write(the=1, to=2, be=3)
    with StateView("words", "count", cluster.kafka) as view:
        assert (view.topic, view.key_fields) == (_TOPIC, ("word",))
        assert view.get("to") == {"count": 2}
        assert view.get("not") is None
        cluster.write(to=5, the=None)
        assert view.get("to") == {"count": 2}, "until it is refreshed"
        searched = view.search(b"to")
        assert searched is not None
        assert (searched.value, view.search(b"the")) == ({"count": 5}, None), "a search reads what there is now"
        view.refresh()
        assert view.get("to") == {"count": 5}
        assert [*view.items()] == [("be", {"count": 3}), ("to", {"count": 5})]
        assert len(view) == 2
        entry = view.entry(b"to")
        assert entry is not None
        assert (entry.key, entry.task, entry.changed_ms) == (("to",), fields_task(b"to", 3), 123_456)
        with pytest.raises(TypeError, match=r"a key is one value for each field \(word\), not 2"):
            view.get("a", "b")
        with pytest.raises(TypeError, match="the key's field 'word' takes string, not int"):
            view.get(1)


def test_a_state_that_cannot_be_viewed() -> None:
    cluster = _Cluster()
    with pytest.raises(StateError, match="'other' of topology 'words' has no state: count has one"):
        StateView("words", "other", cluster.kafka)
    with pytest.raises(StateError, match="has no component 'missing': it has lines, count, other"):
        StateView("words", "missing", cluster.kafka)
    with pytest.raises(UnknownTopologyError, match="the cluster has words"):
        StateView("missing", "count", cluster.kafka)
    at = fields_task(b"bad", 3)
    cluster.broker.append(_TOPIC, at, b"bad", b"?", None)
    with StateView("words", "count", cluster.kafka) as view:
        place = rf"words\.state\.count\[{at}\], key 'bad': "
        with pytest.raises(
            StateError, match=rf"{place}the value '\?' is not JSON with the fields count: long.*reset words"
        ):
            view.get("bad")
    other = About.of(manifest(spout("lines"), counting("count", "lines"), topology="x"), "count")
    cluster.broker.append(_TOPIC, at, ABOUT_KEY, other.to_json(), None)
    with StateView("words", "count", cluster.kafka) as view, pytest.raises(StateError, match="it is of bolt 'count' o"):
        view.get("bad")
    cluster.broker.append(_TOPIC, at, None, b"", None)
    with StateView("words", "count", cluster.kafka) as view, pytest.raises(StateError, match="a record without a key"):
        view.get("bad")


def test_the_changelog_of_a_view_may_be_missing() -> None:
    cluster = _Cluster(has_changelog=False)
    with StateView("words", "count", cluster.kafka) as view, pytest.raises(Exception, match=_TOPIC) as raised:
        view.refresh()
    assert not isinstance(raised.value, TopicsError), "a broker in memory has an error of its own"
