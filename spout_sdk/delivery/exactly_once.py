"""Exactly once: tuples, acks, states and the set of done inputs, in one transaction of all tasks of a process."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Message

from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.delivery.delivery_guarantees import AtLeastOnce, AtMostOnce, DeliveryGuarantee
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.errors import OpenInputsError, RolledBackError
from spout_sdk.kafka.kafka_reader import positions
from tuple_tree.manifest import Guarantee

INTERVAL_SECONDS: Final = 0.1  # how old a transaction becomes under load
_UNTRACKED_SECONDS: Final = 1.0  # for which a commit executes chains, at most
_PAUSE_OF_COMMITS: Final = 4  # between commits of an idle process, as a multiple of the time of the last one


class ExactlyOnce(DeliveryGuarantee):
    """Commits a process's tuples, ack batches, dead letters and progress in one transaction of all its tasks.

    The transaction ends when it is old enough, or when the input is idle and the last one has not just ended. It has
    all outputs of the inputs that it commits, and none of others (`TransactionalOutbox`). A message of a spout whose
    tuples all stay in the chain is done when the chain has acked it; ackers follow the trees of other messages.
    """

    _sink: TransactionalSink

    def __init__(self, *process: Any, **settings: Any) -> None:
        super().__init__(*process, **settings)
        self._committed: dict[int, Any] = {}  # the value of `_progress` at the last commit
        self._since: float | None = None
        self._idle_commit_at = 0.0

    def open(self, tasks: Mapping[int, BoltTask]) -> None:
        """Restores the states of tasks; leaves their sessions to `admit`."""
        self._new.update(tasks)
        self._states.begin(tasks)

    def admit(self, records: Sequence[Message]) -> None:
        """Opens the sessions of tasks that have their first records, and lets them continue from committed offsets.

        Sessions are not opened earlier: a process that has lost its place in the group could still commit a transaction
        without the offset of an input, and its session would supersede that of the task's new owner.
        """
        self._sink.refresh()
        for task in self._continued(records) if self._new else ():
            task.open_session()

    def tick(self, now: float) -> None:
        super().tick(now)
        if self._is_refresh(now):
            self._committed.clear()
        if self._since is None:
            if self._sink.is_used or self._states.have_changes or self._progress() != self._committed:
                self._since = now
        elif now - self._since >= INTERVAL_SECONDS:
            self._commit_if_possible(now)

    def flush(self, now: float) -> None:
        if now >= self._idle_commit_at:
            self._commit_if_possible(now)

    def release(self, partitions: Sequence[int]) -> None:
        """Commits; if that is not possible, aborts the transaction of all tasks and raises `RolledBackError`."""
        try:
            if not self._commit():
                raise RolledBackError(f"tasks {list(partitions)} were revoked, and cannot be committed yet")
        except RolledBackError:
            self._abort()
            raise
        finally:
            self._forget(partitions)

    def drop(self, partitions: Sequence[int]) -> None:
        """Aborts a transaction with records; raises `RolledBackError` then if this process has other tasks."""
        self._forget(partitions)
        if self._sink.is_used:
            self._abort()
            if self._tasks:
                raise RolledBackError(f"tasks {list(partitions)} were lost to other processes")

    def roll_back(self, why: str) -> None:
        self._counters.rollbacks += 1
        super().roll_back(why)
        self._abort()
        self._committed.clear()

    def close(self) -> None:
        """Aborts the open transaction, so that readers do not wait for its timeout."""
        self._sink.close()
        super().close()

    def _commit_if_possible(self, now: float) -> None:
        if self._commit() or self._since is None or now - self._since < self._sink.timeout / 2:
            return
        for partition, task in self._tasks.items():
            commits = task.commits(self._reader.metadata_room, in_transaction=True)
            fits = not any(commit.left_out for commit in commits.values())
            if not (fits and task.can_commit):
                oldest, seconds = task.inputs.oldest_open, self._sink.timeout / 2
                raise OpenInputsError(self._component, partition, oldest, seconds, fits=fits)

    def _commit(self) -> bool:
        """Commits if there is anything to commit; False if it cannot be committed yet."""
        for task in self._tasks.values():
            task.execute_untracked(self._clock() + _UNTRACKED_SECONDS)
            task.flush()
        progress = self._progress()
        if not (self._sink.is_used or self._states.have_changes) and progress == self._committed:
            # The task that made it wait may have moved to another process.
            self._since = None
            return True
        if not all(task.can_commit for task in self._tasks.values()):
            return False
        commits = self._commits(self._tasks, in_transaction=True)
        if any(commit.left_out for commit in commits.values()):
            return False
        # Read first: if another process gets the tasks and commits from now on, the group fences this process.
        place = self._reader.place_in_group
        # Emits of a tick may precede all input. Without an offset, the group would not fence their transaction.
        offsets = positions(commits) if commits else self._reader.starts(tuple(self._tasks))
        began = self._clock()
        self._states.write(self._sink)
        try:
            self._sink.commit(offsets, place)
        except RolledBackError as error:
            self._reader.transaction_refused(error, commits.values())
            raise
        ended = self._clock()
        # If processes wait for cores, the input is idle after each turn of this process, and each commit costs brokers
        # as much as hundreds of tuples.
        self._idle_commit_at = ended + _PAUSE_OF_COMMITS * (ended - began)
        self._states.committed()
        self._committed = progress
        self._since = None
        self._failures.clear()
        self._counters.transactions += 1
        for task in list(self._tasks.values()):
            task.committed()
        return True

    def _abort(self) -> None:
        self._sink.abort()
        self._since = None

    def _progress(self) -> dict[int, Any]:
        """The progress of each task that has any."""
        keys = {at: task.progress_key for at, task in self._tasks.items()}
        return {at: key for at, key in keys.items() if key is not None}

    def _forget(self, partitions: Sequence[int]) -> None:
        super()._forget(partitions)
        for partition in partitions:
            self._committed.pop(partition, None)


GUARANTEES: Final[Mapping[Guarantee, type[DeliveryGuarantee]]] = {
    "at_least_once": AtLeastOnce,
    "at_most_once": AtMostOnce,
    "exactly_once": ExactlyOnce,
}
