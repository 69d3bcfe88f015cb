"""Exactly once for a spout with chained bolts: what they send, and which messages are done, in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import TopicPartition

from spout_sdk.chains.head_task import open_sessions
from spout_sdk.delivery.exactly_once import ExactlyOnce
from spout_sdk.errors import HeldBackError
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.commit_metadata import Commit

_REFRESH_SECONDS: Final = 3_600.0
"""After which the offsets of a quiet source are committed again: a broker forgets those that are not, after days."""


class SpoutTransactions(ExactlyOnce):
    """Commits the transaction of all tasks of a spout's process, with the done sets of their sources.

    A message is open as long as its chain is. It ends when the chain has acked it, or a tuple of it has left the
    process: then the tree is that of the ackers. So the transaction waits for messages whose chain is open and has
    written or sent something.
    """

    _tasks: Mapping[int, SpoutTask]  # type: ignore[assignment]

    def __init__(self, *process: Any, **settings: Any) -> None:
        super().__init__(*process, **settings)
        self._refresh_at = self._clock() + _REFRESH_SECONDS
        self._is_refreshed = False

    def open(self, tasks: Mapping[int, SpoutTask]) -> None:  # type: ignore[override]
        """Opens the sessions of assigned tasks. Each transaction has an offset, by which the group fences it."""
        open_sessions(self._sink, list(tasks.values()))

    def tick(self, now: float) -> None:
        if now >= self._refresh_at:
            self._refresh_at = now + _REFRESH_SECONDS
            self._is_refreshed = True
        super().tick(now)

    def _done(self) -> Any:
        marks = {at: task.adapter.done_mark for at, task in self._tasks.items()}
        return (marks, self._is_refreshed) if marks else {}

    @property
    def _is_whole(self) -> bool:
        return all(task.is_repeatable for task in self._tasks.values())

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

    def _raise_held_back(self) -> None:
        for number, task in self._tasks.items():
            fits = not any(commit.left_out for commit in task.adapter.commits(self._reader.metadata_room).values())
            if not (fits and task.is_repeatable):
                raise HeldBackError(self._component, number, None, self._sink.timeout / 2, fits=fits)

    def _forget(self, partitions: Sequence[int]) -> None:  # noqa: ARG002 - of others
        """The next transaction is committed whether anything is new or not."""
        self._committed = {}
