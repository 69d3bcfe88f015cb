"""Searches for tuple trees, bounded in number and time, so that many of them do not block other requests."""

import threading
import time
from collections.abc import Callable
from typing import Final

from inspection.dashboard.source import Shown
from inspection.errors import RootNotFoundError, SearchLimitError
from inspection.notation import show_root
from inspection.trace.as_json import tree_as_json
from inspection.trace.tree import Tree
from inspection.trace.verdict import verdict
from inspection.trace_reader import TraceReader
from kafka_clients.catalogue import KafkaSettings
from tuple_tree.manifest import Manifest
from tuple_tree.names import acks_topic

AT_ONCE: Final = 2
SEARCH_S: Final = 60.0  # how long a search may take
MOST_TUPLES: Final = 2_000  # tuples of the largest tree that is drawn


class TreeSearches:
    """Searches, each in the thread that asks."""

    def __init__(self, kafka: KafkaSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._clock = clock
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._closed = False

    def close(self) -> None:
        self._closed = True

    def find(self, manifest: Manifest, root: int, ended_ms: int | None = None) -> Shown:
        """A tree, as `acker trace --json` prints it; begun within a largest tree age of `ended_ms`, or two of now."""

        def search(reader: TraceReader) -> list[Tree]:
            since_ms = reader.usual_since_ms if ended_ms is None else reader.begun_since_ms(ended_ms)
            return reader.trees([root], since_ms)

        return self._shown(manifest, search, show_root(root))

    def oldest(self, manifest: Manifest, partition: int) -> Shown:
        def search(reader: TraceReader) -> list[Tree]:
            found = reader.oldest_trees(1, reader.usual_since_ms, [partition])
            if not found:
                raise RootNotFoundError(
                    f"no tree is open in partition {partition} of {acks_topic(manifest.topology)}: those that were "
                    "open have been acked or have failed meanwhile. Look again, or go back to the dashboard"
                )
            return found

        return self._shown(manifest, search, "--oldest 1")

    def _shown(self, manifest: Manifest, search: Callable[[TraceReader], list[Tree]], which: str) -> Shown:
        command = f"acker trace {which} --topology {manifest.topology}"
        if not self._room.acquire(blocking=False):
            raise SearchLimitError(
                f"the dashboard searches for {AT_ONCE} trees already, its limit: try again later, or run {command}"
            )
        deadline = self._clock() + SEARCH_S

        def check(what: str, done: int, total: int) -> None:
            if self._closed:
                raise SearchLimitError("the dashboard is stopping; start it again")
            if self._clock() > deadline:
                raise SearchLimitError(
                    f"the dashboard searches for {SEARCH_S:g} s at most, and has read {done:,} of {total:,} records of "
                    f"{what}; run {command}, which takes the time that it needs"
                )

        try:
            with TraceReader(self._kafka, manifest, check) as reader:
                (tree,) = search(reader)
        finally:
            self._room.release()
        if len(tree.nodes) > MOST_TUPLES:
            raise SearchLimitError(
                f"{verdict(tree)}. The dashboard draws {MOST_TUPLES:,} tuples of a tree at most, and this one has "
                f"{len(tree.nodes):,}; run {command}"
            )
        return {"topology": manifest.topology, "trees": [tree_as_json(tree)]}
