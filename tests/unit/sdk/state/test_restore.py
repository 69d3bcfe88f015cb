"""Restoring the states of tasks, and views of a state, from a changelog in memory."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import TopicPartition

from kafka_clients.errors import UnknownTopologyError
from spout_sdk import Topology
from spout_sdk.errors import StateError, TopicsError
from spout_sdk.runtime.task_loop import ComponentProcess
from spout_sdk.state import StateView, restore
from spout_sdk.state.process_states import process_states
from spout_sdk.state.restore import RestoreProgress, Restorer
from spout_sdk.state.stores import MemoryStore, Store
from spout_sdk.statistics.state_stats import StateStats
from spout_sdk.statistics.stats import Counters
from spout_sdk.testing.broker import MemoryBroker
from spout_sdk.testing.clients import MemoryClients
from spout_sdk.testing.tasks import LIMITLESS
from tests.manifests import bolt, counting, manifest, spout
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.routing import fields_task
from tuple_tree.state_records import ABOUT_KEY, SYSTEM_PREFIX, About
from tuple_tree.topics import TopicSpec, topic_specs

_TOPIC = "words.state.count"


def _manifest(**settings: Any) -> Manifest:
    return manifest(spout("lines"), counting("count", "lines", tasks=3), bolt("other", "lines"), **settings)


class _Cluster:
    """A broker in memory with the topics of a topology, and what restores its states."""

    def __init__(self, directory: Path | None = None, *, has_changelog: bool = True) -> None:
        self.topology = Topology(_manifest(), {}, kafka_sources={"lines": ("in",)}, state_guarantees={"count": "once"})
        specs = [spec for spec in topic_specs(self.topology.manifest) if has_changelog or spec.name != _TOPIC]
        self.broker = MemoryBroker([*specs, TopicSpec("in", 1)], lambda: 123_456)
        self.broker.append(TOPOLOGIES_TOPIC, 0, b"words", self.topology.manifest.to_json(), None)
        self.progress: list[RestoreProgress] = []
        self.clients = MemoryClients(self.broker, [0], room=LIMITLESS)
        self.restorer = Restorer(self.topology, "count", self.clients.settings, directory, self.progress.append)

    def write(self, task: int, records: Mapping[bytes, bytes | None], *, about: bool = True) -> None:
        if about:
            self.broker.append(_TOPIC, task, ABOUT_KEY, self.restorer.about.to_json(), None)
        for key, value in records.items():
            self.broker.append(_TOPIC, task, key, value, None)

    def count(self, **counts: int | None) -> None:
        """Writes the values of words, each to the partition of its key."""
        for word, count in counts.items():
            value = None if count is None else b'{"count":%d}' % count
            self.write(fields_task(word.encode(), 3), {word.encode(): value}, about=False)

    def view(self) -> StateView:
        return StateView("words", "count", self.clients.settings)

    def commit(self, task: int, offset: int) -> None:
        self.broker.commit("words.count", [TopicPartition("words.tuples.count", task, offset)])

    def restored(self, *tasks: int) -> dict[int, Store]:
        stores = {task: self.restorer.open(task) for task in tasks}
        self.restorer.restore(stores)
        return stores


def _kept(store: Store) -> dict[bytes, bytes]:
    return {key: value for key, value, _ in store.items()}


def test_several_tasks_are_restored_together_and_again_from_where_they_are(caplog: pytest.LogCaptureFixture) -> None:
    cluster = _Cluster()
    cluster.write(0, {b"a": b"1", b"b": b"2", SYSTEM_PREFIX + b"x": b"y"})
    cluster.write(0, {b"a": b"3", b"b": None}, about=False)
    cluster.write(2, {b"c": b"4"})
    cluster.commit(0, 5)
    with caplog.at_level(logging.INFO, "spout_sdk.state"):
        stores = cluster.restored(0, 1, 2)
    assert {task: _kept(store) for task, store in stores.items()} == {0: {b"a": b"3"}, 1: {}, 2: {b"c": b"4"}}
    assert {task: store.position for task, store in stores.items()} == {0: 6, 1: 0, 2: 2}
    assert next(stores[0].items()) == (b"a", b"3", 123_456)
    assert [*stores[0].items(SYSTEM_PREFIX + b"x")] == [(SYSTEM_PREFIX + b"x", b"y", 123_456)]
    assert (cluster.progress[-1].tasks, cluster.progress[-1].records, cluster.progress[-1].left) == ((0, 1, 2), 8, 0)
    assert cluster.progress[-1].total == 8
    begin, end = (record.message for record in caplog.records)
    assert begin == f"restoring tasks 0, 2 from {_TOPIC}: 8 offsets to read"
    assert end.startswith(f"restored tasks 0, 1, 2 from {_TOPIC}: 2 keys; read 8 records, ")

    cluster.progress.clear()
    cluster.write(1, {b"d": b"5"})
    cluster.restorer.restore(stores)
    assert _kept(stores[1]) == {b"d": b"5"}
    assert cluster.progress[-1].records == 2, "only what is new"
    assert cluster.restorer.ends([0, 1]) == {0: 6, 1: 2}
    cluster.restorer.close()


def test_a_store_on_disk_reads_only_the_rest(tmp_path: Path) -> None:
    cluster = _Cluster(tmp_path)
    cluster.write(0, {b"a": b"1", b"b": b"2"})
    first = cluster.restored(0)
    first[0].close()
    cluster.write(0, {b"a": None, b"c": b"3"}, about=False)
    cluster.progress.clear()
    second = cluster.restored(0)
    assert (_kept(second[0]), second[0].position, len(second[0])) == ({b"b": b"2", b"c": b"3"}, 5, 2)
    assert cluster.progress[-1].records == 2
    second[0].close()
    assert (tmp_path / "words" / "count" / "0").is_dir()


def test_a_process_that_hangs_with_a_store_does_not_end_the_next_owner_of_its_task(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hanging, cluster = _Cluster(tmp_path), _Cluster(tmp_path)
    held = hanging.restorer.open(0)
    cluster.write(0, {b"a": b"1"})
    stores = cluster.restored(0)
    assert _kept(stores[0]) == {b"a": b"1"}
    assert "another process has it open" in caplog.text
    held.close()
    stores[0].close()
    cluster.write(0, {b"b": b"2"})
    assert _kept(cluster.restored(0)[0]) == {b"a": b"1", b"b": b"2"}


def test_progress_is_logged_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = _Cluster()
    monkeypatch.setattr(restore, "_BATCH", 2)
    cluster.clients.room = 1  # a poll returns a record
    cluster.write(0, {b"%d" % number: b"x" for number in range(5)})
    now = 0.0

    def later(_progress: RestoreProgress) -> None:
        nonlocal now
        now += 2.5
        cluster.clients.room = 1

    restorer = Restorer(cluster.topology, "count", cluster.clients.settings, None, later, lambda: now)
    with caplog.at_level(logging.INFO, "spout_sdk.state"):
        restorer.restore({0: MemoryStore()})
    lines = [record.message for record in caplog.records][1:-1]
    assert lines == [
        f"restoring tasks 0 from {_TOPIC}: 2 records, 0/s, 4 offsets left",
        f"restoring tasks 0 from {_TOPIC}: 4 records, 0/s, 2 offsets left",
    ]


def test_a_changelog_that_is_lost_or_of_another_state_is_refused() -> None:
    cluster = _Cluster()
    cluster.write(0, {}, about=False)
    assert cluster.restored(0)[0].position == 0, "a state that begins"
    cluster.commit(0, 17)
    lost = r"words\.state\.count\[0\] has no record .*about'.*processed up to offset 17.*deleted.*reset words count$"
    with pytest.raises(StateError, match=lost):
        cluster.restored(0)
    about = cluster.restorer.about.to_json()
    for value, complaint in (
        (About.of(_manifest(topology="other"), "count").to_json(), "it is of bolt 'count' of topology 'ot"),
        (about.replace(b'"long"', b'"int"'), "another state: its values are count: int"),
        (about.replace(b'"version":1', b'"version":2'), "is of version 2.*Run the version"),
        (b"{", r"\[0\], record .*describes no changelog.*acker state reset words count"),
    ):
        cluster.write(0, {ABOUT_KEY: value}, about=False)
        with pytest.raises(StateError, match=complaint):
            cluster.restored(0)
    cluster.write(1, {b"a": b"1"})
    cluster.broker.append(_TOPIC, 1, None, b"x", None)
    with pytest.raises(StateError, match=r"count\[1\] offset 2: a record without a key does not belong to a state"):
        cluster.restored(1)
    store = MemoryStore()
    store.apply({b"a": (b"1", 0)}, 5)
    with pytest.raises(StateError, match=r"count\[2\] ends at offset 0, and the store of task 2 is at 5: brokers have"):
        cluster.restorer.restore({2: store})


def test_a_source_topic_that_was_created_again_is_an_error() -> None:
    cluster = _Cluster()
    assert cluster.restorer.about.sources == {"lines": {"in": "in"}}, "in memory, the id of a topic is its name"
    earlier = About.of(cluster.topology.manifest, "count", {"lines": {"in": "earlier"}})
    cluster.write(0, {ABOUT_KEY: earlier.to_json()}, about=False)
    with pytest.raises(TopicsError, match="--keep-values"):
        cluster.restored(0)


def test_a_process_has_its_stores_in_the_directory_and_ticks_while_it_restores(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.write(1, {b"a": b"1"})
    seen: list[tuple[float, bool, StateStats | None]] = []

    def tick(now: float) -> None:
        seen.append((now, states.is_restoring, states.stats))

    process = ComponentProcess(
        *(cluster.topology, "count", cluster.clients.settings, lambda: 7.0, bytes, Counters(), tick, lambda: False),
        state_directory=tmp_path,
    )
    state = Mock(size=1, size_bytes=260, applied=Mock(in_changelog=7))
    task: Any = Mock(first=Mock(operator=Mock(state=state)))
    states = process_states(process)
    states.begin({1: task})
    (store, _), _ = state.begin.call_args
    assert store.get(b"a") == b"1"
    assert (tmp_path / "words" / "count" / "1").is_dir()
    now, is_restoring, during = seen[-1]
    assert (now, is_restoring) == (7.0, True)
    assert during is not None
    assert (during.restoring, during.restore_records, during.restore_left, during.restore_total) == ((1,), 2, 0, 2)
    assert (states.is_restoring, states.stats) == (False, StateStats("once", {"1": 1}, {"1": 260}, {"1": 7}))
    states.end([1])
    assert states.stats == StateStats("once")
    states.close()


def test_a_view_has_the_keys_and_reads_what_is_new() -> None:
    cluster = _Cluster()
    for task in range(3):
        cluster.write(task, {})
    cluster.count(the=1, to=2, be=3)
    with cluster.view() as view:
        assert (view.topic, view.key_fields) == (_TOPIC, ("word",))
        assert view.get("to") == {"count": 2}
        assert view.get("not") is None
        cluster.count(to=5, the=None)
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
        StateView("words", "other", cluster.clients.settings)
    with pytest.raises(StateError, match="has no component 'missing': it has lines, count, other"):
        StateView("words", "missing", cluster.clients.settings)
    with pytest.raises(UnknownTopologyError, match="the cluster has words"):
        StateView("missing", "count", cluster.clients.settings)
    at = fields_task(b"bad", 3)
    cluster.write(at, {b"bad": b"?"}, about=False)
    with cluster.view() as view:
        place = rf"words\.state\.count\[{at}\], key 'bad': "
        with pytest.raises(
            StateError, match=rf"{place}the value '\?' is not JSON with the fields count: long.*reset words"
        ):
            view.get("bad")
    cluster.write(at, {ABOUT_KEY: About.of(_manifest(topology="x"), "count").to_json()}, about=False)
    with cluster.view() as view, pytest.raises(StateError, match="it is of bolt 'count' o"):
        view.get("bad")
    cluster.broker.append(_TOPIC, at, None, b"", None)
    with cluster.view() as view, pytest.raises(StateError, match="a record without a key"):
        view.get("bad")


def test_the_changelog_of_a_view_may_be_missing() -> None:
    cluster = _Cluster(has_changelog=False)
    with cluster.view() as view, pytest.raises(Exception, match=_TOPIC) as raised:
        view.refresh()
    assert not isinstance(raised.value, TopicsError), "a broker in memory has an error of its own"
