"""Stores: the same for both, and what only that on disk does."""

import builtins
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spout_sdk.errors import StateError
from spout_sdk.state.rocks_store import RocksStore, store_path
from spout_sdk.state.stores import MemoryStore, Store
from tuple_tree.state_records import ABOUT_KEY, SYSTEM_PREFIX

_HOUR_MS = 3_600_000


def _rocks(path: Path, topic_id: str = "id", now_ms: Callable[[], int] = lambda: 0) -> RocksStore:
    return RocksStore(path, "words.state.count[0]", topic_id, now_ms)


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else _rocks(tmp_path / "store")
    yield made
    made.close()


def test_what_was_loaded_is_counted_when_reading_ends(store: Store) -> None:
    store.load({b"%d" % number: (b"x", 0) for number in range(100)}, 100)
    store.load({b"%d" % number: (None, 0) for number in range(40, 120)}, 200)
    store.flush()
    assert (store.position, len(store)) == (200, 40)
    store.load({b"1": (b"y", 0), b"41": (b"x", 0), b"2": (None, 0), ABOUT_KEY: (b"x", 0)}, 210)
    store.flush()
    store.flush()
    assert (store.position, len(store)) == (210, 40)
    store.apply({b"1": (None, 0), b"new": (b"x", 0)}, None)
    assert len(store) == 40


_KEYS = [b"a", b"b", b"bc", ABOUT_KEY]
_ENTRIES = st.dictionaries(
    st.sampled_from(_KEYS), st.tuples(st.none() | st.binary(max_size=3), st.integers(0, 2**41)), max_size=4
)


@given(st.lists(st.tuples(_ENTRIES, st.none() | st.integers(0, 99)), max_size=8))
@settings(max_examples=8)
def test_both_stores_are_maps_with_times_and_that_on_disk_continues_where_the_last_process_ended(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[Any, int | None]]
) -> None:
    path = store_path(tmp_path_factory.mktemp("rocks"), "words", "count", 3)
    assert path.parts[-3:] == ("words", "count", "3")
    memory, rocks = MemoryStore(), _rocks(path)
    assert (memory.position, rocks.position) == (None, None)
    entries: dict[bytes, tuple[bytes, int]] = {}
    for change, position in [({b"b": (b"1", 2), ABOUT_KEY: (b"", 3)}, 7), *changes]:
        entries |= change
        for store in (memory, rocks):
            store.apply(change, position)
    rocks.close()
    rocks = _rocks(path, now_ms=lambda: _HOUR_MS)
    kept = sorted((key, value, time) for key, (value, time) in entries.items() if value is not None)
    for store in (memory, rocks):
        assert store.position == ([7] + [position for _, position in changes if position is not None])[-1]
        for prefix in (b"b", SYSTEM_PREFIX):
            assert sorted(store.items(prefix)) == [each for each in kept if each[0].startswith(prefix)]
        users = [each for each in kept if not each[0].startswith(SYSTEM_PREFIX)]
        assert (sorted(store.items()), len(store), bool(store)) == (users, len(users), True)
        values = [entries.get(key, (None,))[0] for key in _KEYS]
        assert [store.get(key) for key in _KEYS] == values
        assert store.size_bytes > 0 or not kept
    rocks.close()


@pytest.mark.parametrize(("topic_id", "now_ms"), [("other", 0), ("id", _HOUR_MS + 1)])
def test_a_store_of_another_topic_or_that_is_old_is_made_anew(tmp_path: Path, topic_id: str, now_ms: int) -> None:
    first = _rocks(tmp_path / "store")
    first.apply({b"a": (b"1", 10)}, 7)
    first.close()
    second = _rocks(tmp_path / "store", topic_id, lambda: now_ms)
    assert (second.position, len(second), second.get(b"a")) == (None, 0, None)
    second.close()


def test_a_store_whose_reading_was_interrupted_is_as_old_as_the_beginning_of_it(tmp_path: Path) -> None:
    now = [0]
    first = _rocks(tmp_path / "store", now_ms=lambda: now[0])
    first.load({b"a": (b"1", 10)}, 7)
    now[0] = _HOUR_MS
    first.load({b"b": (b"1", 10)}, 8)
    first.close()
    for now[0], expected in ((_HOUR_MS, (8, 2)), (_HOUR_MS + 1, (None, 0))):
        store = _rocks(tmp_path / "store", now_ms=lambda: now[0])
        assert (store.position, len(store)) == expected
        store.close()


def test_a_store_that_another_process_has_open_is_refused(tmp_path: Path) -> None:
    holds = "import sys; from rocksdict import Rdict; r = Rdict(sys.argv[1]); print(flush=True); input()"
    (tmp_path / "store").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(tmp_path / "store")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(StateError, match=r"words\.state\.count\[0\] at .* another process has it open: stop it"):
            _rocks(tmp_path / "store")
        process.communicate(b"\n")


def test_a_damaged_store_is_refused_with_what_to_do(tmp_path: Path) -> None:
    first = _rocks(tmp_path / "store")
    first.close()
    (tmp_path / "store" / "CURRENT").write_text("nothing\n")
    with pytest.raises(StateError, match=r"cannot be opened .*: delete the directory: the changelog has all of it"):
        _rocks(tmp_path / "store")


def test_without_rocksdict_it_is_said_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "rocksdict":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(StateError, match=r"needs RocksDB: pip install 'kafka-acker\[rocksdb\]', or use the store in"):
        _rocks(tmp_path / "store")
