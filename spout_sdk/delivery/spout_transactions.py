"""Exactly once for a spout with chained bolts: their records and the offsets of the source in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import TopicPartition

from spout_sdk.chains.head_task import open_sessions
from spout_sdk.delivery.exactly_once import ExactlyOnce
from spout_sdk.errors import OpenInputsError
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.commit_metadata import REFRESH_SECONDS, Commit


class SpoutTransactions(ExactlyOnce):
    """Commits one transaction for all tasks of a spout's process, with the done sets of their sources.

    A message whose tuples all stay in the chain is done when the chain has acked it; ackers follow the trees of other
    messages. The transaction waits for messages that are open in the chain, if the chain has already written or sent a
    record for them.
    """

    _tasks: Mapping[int, SpoutTask]  # type: ignore[assignment]

    def __init__(self, *process: Any, **settings: Any) -> None:
        super().__init__(*process, **settings)
        self._refresh_at = self._clock() + REFRESH_SECONDS
        self._is_refreshed = False

    def open(self, tasks: Mapping[int, SpoutTask]) -> None:  # type: ignore[override]
        """Opens the sessions of assigned tasks. Each transaction commits an offset, so the group can fence it."""
        open_sessions(self._sink, list(tasks.values()))

    def tick(self, now: float) -> None:
        if now >= self._refresh_at:
            self._refresh_at = now + REFRESH_SECONDS
            self._is_refreshed = True
        super().tick(now)

    def _done(self) -> Any:
        marks = {at: (task.adapter.done_mark, task.ended_trees) for at, task in self._tasks.items()}
        return (marks, self._is_refreshed) if marks else {}

    def _all_commits(self) -> dict[Any, Commit]:
        room = self._reader.metadata_room
        commits = {at: commit for task in self._tasks.values() for at, commit in task.adapter.commits(room).items()}
        self._left_out.note(commits.values())
        return commits

    def _positions(self, commits: Mapping[Any, Commit]) -> list[TopicPartition]:
        if not commits:
            return self._reader.starts(tuple(self._tasks))
        return [
            TopicPartition(at.topic, at.partition, commit.offset, commit.metadata) for at, commit in commits.items()
        ]

    def _has_committed(self) -> None:
        self._is_refreshed = False
        for task in list(self._tasks.values()):
            task.committed()

    def _raise_open_inputs(self) -> None:
        for number, task in self._tasks.items():
            fits = not any(commit.left_out for commit in task.adapter.commits(self._reader.metadata_room).values())
            if not (fits and task.is_repeatable):
                raise OpenInputsError(self._component, number, None, self._sink.timeout / 2, fits=fits)

    def _forget(self, partitions: Sequence[int]) -> None:  # noqa: ARG002 - the signature of the base
        """Makes the next transaction commit even without changes."""
        self._committed = {}
