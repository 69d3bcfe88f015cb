"""Delivery guarantees: when a process commits the progress of its tasks, in an inbox or in the topics of a spout.

At least once: after the inputs are acked and the acks delivered. At most once: before they are executed or emitted.
Exactly once (`exactly_once`): in a transaction with everything that was sent. A commit is the set of done inputs: an
offset, and in its metadata the done inputs after it, which no later owner executes again. See ADR 32 and ADR 45.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Message

from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.bolts.head_task import HeadTask, open_sessions
from spout_sdk.errors import BrokerError, RolledBackError
from spout_sdk.kafka.kafka_reader import Commits, KafkaReader
from spout_sdk.kafka.kafka_sink import KafkaSink
from spout_sdk.kafka.truncated_commits import TruncatedCommits
from spout_sdk.records import Clock
from spout_sdk.state.process_states import StateBackend
from spout_sdk.statistics.stats import Counters
from tuple_tree.commit_metadata import REFRESH_SECONDS, Commit

logger = get_logger("spout_sdk.delivery")

FLUSH_SECONDS: Final = 10.0  # how long a stop or a revoke waits for deliveries
_MOST_IN_A_ROW: Final = 5  # commits in a row that may fail before the process ends
# About how many tuples are read at once: enough that a read costs little, and few enough to stay in the cache.
_TUPLES_A_READ: Final = 1_000
_COMMIT_SECONDS: Final = 1.0
_NOTE_SECONDS: Final = 0.1  # before a commit, acks of tuples whose records are open are sent, to be part of it
# Each read waits for a commit, which takes milliseconds, so it reads more tuples at once, if there are more.
_TUPLES_A_COMMITTED_READ: Final = 10_000


def flush_tasks(sink: KafkaSink, tasks: Sequence[HeadTask], component: str, deadline: float) -> None:
    """Flushes tasks, and waits for the delivery until a deadline."""
    for _ in range(2):  # a tuple that is not delivered fails its trees, and the fails have to be sent as well
        for task in tasks:
            task.flush()
        undelivered = sink.flush(max(0.0, deadline - time.monotonic()))
    if undelivered:
        logger.warning("%s: %d records were not delivered in time", component, undelivered)


def first_offsets(records: Sequence[Message]) -> dict[int, int]:
    """The offset of the first of these records of each partition; they are in order."""
    return {record.partition(): record.offset() for record in reversed(records)}  # type: ignore[misc]


class DeliveryGuarantee(ABC):
    """The delivery guarantee of a process: commits the progress of its tasks with the reader, and the sink's records.

    `tasks` is the live mapping of the tasks of the process. The loop calls the methods in its thread. Each may raise
    `RolledBackError`; then all tasks are dropped, `roll_back` is called, and new tasks continue from the committed
    offsets. `open`, `admit` and `set_back` are for inboxes: a spout reads its topics itself.
    """

    tuples_a_read = _TUPLES_A_READ
    commits_first = False  # whether records are committed before they are executed

    def __init__(
        self,
        component: str,
        sink: Any,
        reader: KafkaReader,
        tasks: Mapping[int, HeadTask],
        counters: Counters,
        states: StateBackend | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._component = component
        self._sink = sink
        self._reader = reader
        self._tasks = tasks
        self._counters = counters
        self._states = states or StateBackend()
        self._clock = clock
        self._failures: list[str] = []  # why commits have failed since the last one that succeeded
        self._new: dict[int, BoltTask] = {}  # tasks that have no record yet
        self._left_out = TruncatedCommits(component, counters)
        self._refresh_at = clock() + REFRESH_SECONDS

    def open(self, tasks: Mapping[int, BoltTask]) -> None:
        """Opens the sessions of assigned tasks, before they are prepared, and waits until they are delivered."""
        open_sessions(self._sink, list(tasks.values()))
        self._new.update(tasks)
        self._states.begin(tasks)

    def admit(self, records: Sequence[Message]) -> None:
        """Prepares the execution of records: new tasks continue from their committed offsets.

        Raises:
            RolledBackError: if these are not known; the records must not be executed then.
        """
        if self._new:
            self._continued(records)

    def set_back(self, records: Sequence[Message]) -> None:
        """Lets the next owner read records that were not executed before a stop or a revoke."""

    def discard(self, records: Sequence[Message], tuples: int, partitions: Sequence[int]) -> None:
        """Forgets records, and tuples of begun records, that are not executed because their tasks end."""

    def save(self, records: Sequence[Message]) -> None:
        """Saves data that no process sends or reads again, if an error ends this one before it executes records."""

    def tick(self, now: float) -> None:
        """Serves delivery reports, and makes due commits; called every few milliseconds, between two records."""
        self._sink.poll()
        self._states.look(now)

    def flush(self, now: float) -> None:  # noqa: ARG002 - as above
        """Sends what tasks have buffered, because the input is idle."""
        for task in self._tasks.values():
            task.flush()

    @abstractmethod
    def release(self, partitions: Sequence[int]) -> None:
        """Sends the last output of tasks before they are revoked, waits for the delivery, and commits."""

    def drop(self, partitions: Sequence[int]) -> None:
        """Forgets tasks that another process has already, or whose process fails."""
        self._forget(partitions)

    def roll_back(self, why: str) -> None:
        """Undoes uncommitted work; the fifth time in a row raises `BrokerError`, and the process is restarted."""
        self._new.clear()
        self._failures.append(why)
        if len(self._failures) >= _MOST_IN_A_ROW:
            # A refused commit also fails the commits after it, for less specific reasons.
            reasons = "; ".join(dict.fromkeys(self._failures))
            raise BrokerError(
                f"{self._component} could not commit {len(self._failures)} times in a row: {reasons}; check the "
                "brokers and the topics. A restart continues from the committed offsets"
            )

    def close(self) -> None:
        """Closes the states, because the process ends."""
        self._states.close()

    def _continued(self, records: Sequence[Message]) -> list[BoltTask]:
        """Lets the new tasks of records continue from their committed offsets; returns these tasks."""
        partitions = self._new.keys() & {record.partition() for record in records}
        tasks = []
        for at in self._reader.committed([*partitions]) if partitions else ():
            self._new[at.partition].resume(at.offset, at.metadata)
            tasks.append(self._new.pop(at.partition))
        return tasks

    def _forget(self, partitions: Sequence[int]) -> None:
        self._states.end(partitions)
        for partition in partitions:
            self._new.pop(partition, None)

    def _commits(self, partitions: Iterable[int], *, in_transaction: bool = False) -> Commits:
        room = self._reader.metadata_room
        each = [self._tasks[at].commits(room, in_transaction=in_transaction) for at in partitions]
        commits = {at: commit for commits in each for at, commit in commits.items()}
        self._left_out.note(commits.values())
        return commits

    def _is_refresh(self, now: float) -> bool:
        """Whether unchanged commits are due, which a broker would forget otherwise."""
        if now < self._refresh_at:
            return False
        self._refresh_at = now + REFRESH_SECONDS
        return True


class AtLeastOnce(DeliveryGuarantee):
    """Commits inputs that are acked and delivered, in the background: nothing is lost, inputs may be executed twice."""

    _sink: KafkaSink
    _commit_at = _note_at = 0.0

    def admit(self, records: Sequence[Message]) -> None:
        super().admit(records)
        self._failures.clear()  # the committed offsets are known

    def tick(self, now: float) -> None:
        super().tick(now)
        if now >= self._commit_at:
            is_noted = self._note_at >= self._commit_at
            self._commit_at = now + _COMMIT_SECONDS
            self._note_at = self._commit_at - _NOTE_SECONDS
            self._reader.commit(self._commits(self._tasks), again=self._is_refresh(now))
            if not is_noted:  # no tick came between, as with a slow bolt: the acks are part of the next commit
                self._note()
        elif now >= self._note_at:
            self._note_at = self._commit_at
            self._note()

    def _note(self) -> None:
        for task in self._tasks.values():
            task.note_done()

    def release(self, partitions: Sequence[int]) -> None:
        tasks, deadline = [self._tasks[partition] for partition in partitions], time.monotonic() + FLUSH_SECONDS
        for task in tasks:
            task.release()
        try:
            flush_tasks(self._sink, tasks, self._component, deadline)
        finally:
            if self._commit_now(partitions, max(1.0, deadline - time.monotonic())):
                for task in tasks:
                    task.committed()
            self._forget(partitions)

    def _commit_now(self, partitions: Sequence[int], seconds: float) -> bool:
        """Commits all progress of tasks, because a commit in the background may still fail."""
        while True:
            room = self._reader.metadata_room
            is_done = self._reader.commit_now(self._commits(partitions), seconds)
            if is_done or self._reader.metadata_room == room:
                return is_done


class AtMostOnce(AtLeastOnce):
    """Commits inputs before they are executed: they may be lost, and none is executed twice.

    `admit` commits records of an inbox. A spout commits what it reads before it emits that; its progress is what it
    may have emitted.
    """

    tuples_a_read = _TUPLES_A_COMMITTED_READ
    commits_first = True

    def admit(self, records: Sequence[Message]) -> None:
        """Commits the offsets past these records, and waits for that.

        Raises:
            RolledBackError: if the commit is not known to have succeeded; the records must not be executed then.
        """
        offsets = {record.partition(): (record.offset() or 0) + 1 for record in records}
        if not self._commit_inbox(offsets):
            raise RolledBackError(f"the offsets of tasks {sorted(self._known(offsets))} could not be committed")
        self._failures.clear()

    def set_back(self, records: Sequence[Message]) -> None:
        """Commits the offsets of unexecuted records, so that a clean stop and a task that moves lose nothing."""
        offsets = first_offsets(records)
        if not self._commit_inbox(offsets):
            logger.warning(
                "%s: up to %d records of tasks %s are lost: their offsets were committed before they were executed, "
                "and could not be set back",
                *(self._component, len(records), sorted(self._known(offsets))),
                extra=EACH,
            )

    def discard(self, records: Sequence[Message], tuples: int, partitions: Sequence[int]) -> None:
        """Sends emitted tuples, and logs lost inputs: their offsets are committed, so no process reads them again."""
        for partition in self._known(partitions):
            with suppress(BrokerError):  # of a producer that cannot continue, which `tick` raises
                self._tasks[partition].flush()
        if records or tuples:
            logger.warning(
                "%s: up to %d tuples of records that were begun, and %d records from offsets %s on, of tasks %s are "
                "lost: their offsets were committed before they were executed, and the tasks end",
                *(self._component, tuples, len(records), first_offsets(records), sorted(partitions)),
                extra=EACH,
            )

    def save(self, records: Sequence[Message]) -> None:
        """Delivers emitted tuples, and lets the next owner read the rest, as at an orderly end of the process."""
        try:
            self.release([*self._tasks])
        finally:
            self.set_back(records)

    def _commit_inbox(self, offsets: Mapping[Any, int]) -> bool:
        commits = {self._reader.place(each): Commit(offsets[each], "") for each in self._known(offsets)}
        return self._reader.commit_now(commits, FLUSH_SECONDS)

    def _known(self, partitions: Iterable[Any]) -> list[int]:
        return [each for each in partitions if each in self._tasks]
