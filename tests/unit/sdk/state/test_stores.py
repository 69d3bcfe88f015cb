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


def test_a_store_has_what_was_applied_with_times(store: Store) -> None:
    assert (store.position, len(store), bool(store)) == (None, 0, True)
    store.apply({b"a": (b"1", 10), b"b": (b"2", 11), ABOUT_KEY: (b"about", 12)}, 3)
    store.apply({b"b": (b"", 2**41), b"c": (None, 13), b"d": (b"4", 14)}, None)
    assert [store.get(key) for key in (b"a", b"b", b"c", ABOUT_KEY)] == [b"1", b"", None, b"about"]
    assert sorted(store.items()) == [(b"a", b"1", 10), (b"b", b"", 2**41), (b"d", b"4", 14)]
    assert [*store.items(SYSTEM_PREFIX)] == [(ABOUT_KEY, b"about", 12)]
    assert [*store.items(b"d")] == [(b"d", b"4", 14)]
    assert (store.position, len(store)) == (3, 3)
    assert store.size_bytes > 0
    store.apply({b"a": (None, 15), b"b": (None, 15)}, 9)
    assert (store.position, [*store.items()]) == (9, [(b"d", b"4", 14)])


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


_CHANGES = st.lists(
    st.dictionaries(
        st.sampled_from([b"a", b"b", b"c", SYSTEM_PREFIX + b"x"]),
        st.tuples(st.none() | st.binary(max_size=3), st.just(7)),
    ),
    max_size=8,
)


@given(_CHANGES)
@settings(max_examples=8)
def test_both_stores_are_maps(tmp_path_factory: pytest.TempPathFactory, changes: list[Any]) -> None:
    expected: dict[bytes, bytes] = {}
    memory, rocks = MemoryStore(), _rocks(tmp_path_factory.mktemp("rocks") / "store")
    for number, each in enumerate(changes):
        expected |= {key: value for key, (value, _) in each.items()}
        for store in (memory, rocks):
            store.apply(each, number)
    kept = {key: value for key, value in expected.items() if value is not None}
    for store in (memory, rocks):
        found = {key: value for prefix in (b"", SYSTEM_PREFIX) for key, value, _ in store.items(prefix)}
        assert found == kept
        assert len(store) == sum(not key.startswith(SYSTEM_PREFIX) for key in kept)
    rocks.close()


def test_a_store_on_disk_continues_where_the_last_process_ended(tmp_path: Path) -> None:
    path = store_path(tmp_path, "words", "count", 3)
    assert path.relative_to(tmp_path) == Path("words/count/3")
    first = _rocks(path)
    first.apply({b"a": (b"1", 10), ABOUT_KEY: (b"about", 12)}, 7)
    first.close()
    second = _rocks(path, now_ms=lambda: _HOUR_MS)
    assert (second.position, len(second), second.get(b"a"), second.get(ABOUT_KEY)) == (7, 1, b"1", b"about")
    second.close()


@pytest.mark.parametrize(("topic_id", "now_ms"), [("other", 0), ("id", _HOUR_MS + 1)])
def test_a_store_of_another_topic_or_that_is_old_is_made_anew(tmp_path: Path, topic_id: str, now_ms: int) -> None:
    first = _rocks(tmp_path / "store")
    first.apply({b"a": (b"1", 10)}, 7)
    first.close()
    second = _rocks(tmp_path / "store", topic_id, lambda: now_ms)
    assert (second.position, len(second), second.get(b"a")) == (None, 0, None)
    second.close()


def test_a_store_whose_reading_was_interrupted_is_as_old_as_the_beginning_of_it(tmp_path: Path) -> None:
    now = 0
    first = _rocks(tmp_path / "store", now_ms=lambda: now)
    first.load({b"a": (b"1", 10)}, 7)
    now = _HOUR_MS
    first.load({b"b": (b"1", 10)}, 8)
    first.close()
    second = _rocks(tmp_path / "store", now_ms=lambda: _HOUR_MS)
    assert (second.position, len(second)) == (8, 2)
    second.close()
    third = _rocks(tmp_path / "store", now_ms=lambda: _HOUR_MS + 1)
    assert third.position is None
    third.close()


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
