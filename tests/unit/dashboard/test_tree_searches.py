"""The limits of the dashboard's searches for trees."""

import threading
from collections.abc import Callable
from typing import Any, ClassVar, Self
from unittest.mock import Mock

import pytest

from inspection.dashboard import source
from inspection.dashboard.source import AT_ONCE, MOST_TUPLES, SEARCH_SECONDS, Source
from inspection.errors import RootNotFoundError, SearchLimitError
from inspection.trace.tree import Tree, build_tree
from tests.manifests import manifest
from tests.unit.inspection.forest import Forest

ROOT = 0xABC
COMMAND = f"acker trace {ROOT:016x} --topology words"


class Reader:
    """Replaces the reader of Kafka."""

    usual_since_ms = 600_000
    tuples = 1
    reads: Callable[[Callable[[str, int, int], None]], None] = staticmethod(lambda _progress: None)

    def __init__(self, _kafka: object, _manifest: object, progress: Callable[[str, int, int], None]) -> None:
        self.progress = progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begun_since_ms(self, ended_ms: int) -> int:
        return ended_ms - 200_000

    def trees(self, roots: list[int], since_ms: int) -> list[Tree]:
        Reader.searches.append((roots, since_ms))
        type(self).reads(self.progress)
        forest = Forest(1, (ROOT,))
        forest.begin(ROOT, "count", self.tuples)
        return [build_tree(forest.records(ROOT))]

    def oldest_trees(self, count: int, since_ms: int, partitions: list[int]) -> list[Tree]:
        return self.trees(partitions, since_ms)[: count if self.tuples else 0]

    searches: ClassVar[list[tuple[list[int], int]]] = []


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "TraceReader", Reader)
    monkeypatch.setattr(source, "Catalogue", lambda _kafka: Mock(manifest=lambda name: manifest(topology=name)))
    monkeypatch.setattr(Reader, "searches", [])


def found(searches: Source, ended_ms: int | None = None) -> Any:
    return searches.trace("words", ROOT, ended_ms)


def test_the_search_begins_at_the_earliest_possible_init(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Source({})
    assert [tree["root"] for tree in found(searches)["trees"]] == [f"{ROOT:016x}"]
    found(searches, 700_000)
    searches.oldest("words", 3)
    assert Reader.searches == [([ROOT], 600_000), ([ROOT], 500_000), ([3], 600_000)]
    monkeypatch.setattr(Reader, "tuples", 0)
    with pytest.raises(RootNotFoundError, match=r"no tree is open in partition 3 of words\.acks: .* Look again"):
        searches.oldest("words", 3)


def test_two_searches_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def read(_progress: object) -> None:
        begun.release()
        assert go_on.wait(60)

    monkeypatch.setattr(Reader, "reads", staticmethod(read))
    searches = Source({})
    threads = [threading.Thread(target=found, args=(searches,)) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
        assert begun.acquire(timeout=60)
    with pytest.raises(SearchLimitError, match=f"runs {AT_ONCE} searches already.*{COMMAND}"):
        found(searches)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert found(searches)


def test_a_search_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def read(progress: Callable[[str, int, int], None]) -> None:
        nonlocal now
        now += SEARCH_SECONDS + 1
        progress("inboxes", 1_000, 5_000)

    monkeypatch.setattr(Reader, "reads", staticmethod(read))
    searches = Source({}, lambda: now)
    for _ in range(AT_ONCE + 1):
        with pytest.raises(SearchLimitError, match=f"has read 1,000 of 5,000 records of inboxes; run {COMMAND}"):
            found(searches)


def test_a_tree_that_is_too_large_has_only_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "tuples", MOST_TUPLES + 1)
    with pytest.raises(SearchLimitError, match=rf"^open: 2,001 of 2,001 tuples, .*has 2,001; run {COMMAND}$"):
        found(Source({}))
