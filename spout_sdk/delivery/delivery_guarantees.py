"""Delivery guarantees of a bolt: when its process commits which of its inputs are done.

At least once: after the inputs are acked and the acks delivered. At most once: before they are executed. Exactly once:
in a transaction with all that was sent. What is committed is a set: an offset, and in its metadata what is done behind
it, which no later owner executes again. See ADR 32.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Message

from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.emitting.task import Task, open_sessions
from spout_sdk.errors import BrokerError, HeldBackError, RolledBackError
from spout_sdk.kafka.kafka_reader import KafkaReader
from spout_sdk.kafka.kafka_sink import KafkaSink
from spout_sdk.kafka.left_out import LeftOut
from spout_sdk.statistics.stats import Counters
from tuple_tree.commit_metadata import Commit
from tuple_tree.manifest import Guarantee

logger = get_logger("spout_sdk.delivery")

FLUSH_SECONDS: Final = 10.0  # how long a stop or a revoke waits for deliveries
LARGEST_BATCH: Final = 500  # tuples that a `BatchBolt` is given at once, at most
INTERVAL_SECONDS: Final = 0.1  # how old a transaction becomes under load
_MOST_IN_A_ROW: Final = 5  # commits in a row that may fail before the process ends
# Tuples that are read at once, about: enough that a read costs little, and few enough to stay in the cache.
_TUPLES_A_READ: Final = 1_000
_COMMIT_SECONDS: Final = 1.0
_NOTE_SECONDS: Final = 0.1  # before a commit, acks of tuples whose records are open are sent, to be part of it
# Each read waits for a commit, which takes milliseconds: it is read for many tuples at a time, if they are there.
_TUPLES_A_COMMITTED_READ: Final = 10_000


def flush_tasks(sink: KafkaSink, tasks: Sequence[Task], component: str) -> float:
    """Sends what tasks have, and waits until it is delivered, `FLUSH_SECONDS` at most; returns the seconds left."""
    deadline = time.monotonic() + FLUSH_SECONDS
    for _ in range(2):  # a tuple that is not delivered fails its trees, and that has to be sent as well
        for task in tasks:
            task.flush()
        undelivered = sink.flush(max(0.0, deadline - time.monotonic()))
    if undelivered:
        logger.warning("%s: %d records were not delivered in time", component, undelivered)
    return deadline - time.monotonic()


def first_offsets(records: Sequence[Message]) -> dict[int, int]:
    """The offset of the first of these records of each partition; they are in order."""
    return {record.partition(): record.offset() for record in reversed(records)}  # type: ignore[misc]


class DeliveryGuarantee:
    """Delivery guarantee of a process: commits the offsets of its inputs with the reader, and the sink's records.

    `tasks` is the live mapping of the tasks of the process. The loop calls the methods in its thread. Each may raise
    `RolledBackError`; then all tasks are dropped, `roll_back` is called, and new tasks continue from the committed
    offsets.
    """

    tuples_a_read = _TUPLES_A_READ
    commits_first = False  # whether records are committed before they are executed

    def __init__(
        self, component: str, sink: Any, reader: KafkaReader, tasks: Mapping[int, BoltTask], counters: Counters
    ) -> None:
        self._component = component
        self._sink = sink
        self._reader = reader
        self._tasks = tasks
        self._counters = counters
        self._failures: list[str] = []  # why commits have failed, since the last that did not
        self._new: dict[int, BoltTask] = {}  # tasks that have no record yet
        self._left_out = LeftOut(component, counters)

    def open(self, tasks: Mapping[int, BoltTask]) -> None:
        """Opens the sessions of assigned tasks, before they are prepared, and waits until that is delivered."""
        open_sessions(self._sink, list(tasks.values()))
        self._new.update(tasks)

    def admit(self, records: Sequence[Message]) -> None:
        """Does what has to precede the execution of records: tasks continue from what is committed.

        Raises:
            RolledBackError: if that is not known; the records must not be executed then.
        """
        if self._new:
            self._continued(records)

    def set_back(self, records: Sequence[Message]) -> None:
        """Lets the next owner read records that are not executed, as the process stops or their tasks are revoked."""

    def discard(self, records: Sequence[Message], tuples: int, partitions: Sequence[int]) -> None:
        """Forgets records, and tuples of records that were begun, that are not executed, as their tasks end."""

    def save(self, records: Sequence[Message]) -> None:
        """Saves what no process sends or reads again, as the process ends by an error before it executes records."""

    def tick(self, now: float) -> None:  # noqa: ARG002 - of guarantees that commit by the time
        """Serves delivery reports, and commits what is due; called every few milliseconds, between two records."""
        self._sink.poll()

    def flush(self, now: float) -> None:  # noqa: ARG002 - as above
        """Sends what tasks have buffered, as the input is idle."""
        for task in self._tasks.values():
            task.flush()

    def release(self, partitions: Sequence[int]) -> None:
        """Sends the last of tasks that are cleaned up and are revoked next, waits, and commits it."""
        flush_tasks(self._sink, [self._tasks[partition] for partition in partitions], self._component)

    def drop(self, partitions: Sequence[int]) -> None:
        """Forgets tasks that another process has already, or whose process fails."""
        self._forget(partitions)

    def roll_back(self, why: str) -> None:
        """Undoes what is not committed; the fifth time in a row ends the process: its supervisor restarts it."""
        self._new.clear()
        self._failures.append(why)
        if len(self._failures) >= _MOST_IN_A_ROW:
            # A commit that is refused also fails the commits after it, for reasons that say less.
            reasons = "; ".join(dict.fromkeys(self._failures))
            raise BrokerError(
                f"{self._component} could not commit {len(self._failures)} times in a row: {reasons}; check the "
                "brokers and the topics. A restart continues from the committed offsets"
            )

    def close(self) -> None:
        """Ends what is open, as the process ends."""

    def _continued(self, records: Sequence[Message]) -> list[BoltTask]:
        """Lets the tasks of records that have read nothing yet continue from what is committed; returns these tasks."""
        partitions = self._new.keys() & {record.partition() for record in records}
        tasks = []
        for at in self._reader.committed([*partitions]) if partitions else ():
            self._new[at.partition].resume(at.offset, at.metadata)
            tasks.append(self._new.pop(at.partition))
        return tasks

    def _forget(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self._new.pop(partition, None)

    def _commits(self, partitions: Iterable[int], *, in_transaction: bool = False) -> dict[int, Commit]:
        room = self._reader.metadata_room
        found = {at: self._tasks[at].commit(room, in_transaction=in_transaction) for at in partitions}
        commits = {at: commit for at, commit in found.items() if commit is not None}
        self._left_out.note(commits.values())
        return commits


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
            self._reader.commit(self._commits(self._tasks))
            if not is_noted:  # for a slow bolt, no tick came between: then it is part of the next commit
                self._note()
        elif now >= self._note_at:
            self._note_at = self._commit_at
            self._note()

    def _note(self) -> None:
        for task in self._tasks.values():
            task.note_done()

    def release(self, partitions: Sequence[int]) -> None:
        tasks = [self._tasks[partition] for partition in partitions]
        for task in tasks:
            task.note_done()
        seconds = flush_tasks(self._sink, tasks, self._component)
        # All of them, because an asynchronous commit may still fail.
        while True:
            room = self._reader.metadata_room
            is_done = self._reader.commit_now(self._commits(partitions), max(1.0, seconds))
            if is_done or self._reader.metadata_room == room:
                break
        self._forget(partitions)


class AtMostOnce(DeliveryGuarantee):
    """Commits records before they are executed: records may be lost, and none is executed twice."""

    tuples_a_read = _TUPLES_A_COMMITTED_READ
    commits_first = True

    def open(self, tasks: Mapping[int, BoltTask]) -> None:
        open_sessions(self._sink, list(tasks.values()))

    def admit(self, records: Sequence[Message]) -> None:
        """Commits the offsets behind these records, and waits for that.

        Raises:
            RolledBackError: if it is not known to be done; the records must not be executed then.
        """
        offsets = self._known({record.partition(): (record.offset() or 0) + 1 for record in records})
        if not self._reader.commit_now(_bare(offsets), FLUSH_SECONDS):
            raise RolledBackError(f"the offsets of tasks {sorted(offsets)} could not be committed")
        self._failures.clear()

    def set_back(self, records: Sequence[Message]) -> None:
        """Commits the offsets of unexecuted records, so that a clean stop and a task that moves lose nothing."""
        offsets = self._known(first_offsets(records))
        if not self._reader.commit_now(_bare(offsets), FLUSH_SECONDS):
            logger.warning(
                "%s: up to %d records of tasks %s are lost: their offsets were committed before they were executed, "
                "and could not be set back",
                *(self._component, len(records), sorted(offsets)),
                extra=EACH,
            )

    def discard(self, records: Sequence[Message], tuples: int, partitions: Sequence[int]) -> None:
        """Sends what the tasks have emitted, and logs what is lost: it is committed, so no process reads it again."""
        for partition in self._known(dict.fromkeys(partitions, 0)):
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
        """As at the end of a process in order: delivers what was emitted, and lets the next owner read the rest."""
        try:
            self.release([*self._tasks])
        finally:
            self.set_back(records)

    def _known(self, offsets: Mapping[Any, int]) -> dict[int, int]:
        return {at: offset for at, offset in offsets.items() if at in self._tasks}


class ExactlyOnce(DeliveryGuarantee):
    """Commits a process's tuples, ack batches, dead letters and input offsets in one transaction of all its tasks.

    It ends when it is old enough, and as soon as the input is idle, but only where no input that will be read again can
    have had an effect (see `InputOffsets`).
    """

    _sink: TransactionalSink

    def __init__(self, *process: Any) -> None:
        super().__init__(*process)
        self._committed: dict[int, tuple[int, int, int]] = {}
        self._since: float | None = None

    def open(self, tasks: Mapping[int, BoltTask]) -> None:
        """Leaves that to `admit`."""
        self._new.update(tasks)

    def admit(self, records: Sequence[Message]) -> None:
        """Opens the sessions of tasks that have their first records, and lets them continue where others were.

        Not before: a transaction without the offset of an input could still be committed by a process that lost its
        place in the group, and what it opens would then supersede the session of the task's new owner.
        """
        self._sink.refresh()
        for task in self._continued(records) if self._new else ():
            task.open_session()

    def tick(self, now: float) -> None:
        super().tick(now)
        if self._since is None:
            if self._sink.is_used or self._done() != self._committed:
                self._since = now
        elif now - self._since >= INTERVAL_SECONDS:
            self._commit_if_whole(now)

    def flush(self, now: float) -> None:
        self._commit_if_whole(now)

    def release(self, partitions: Sequence[int]) -> None:
        """Commits, or undoes what cannot be committed, that of the other tasks as well: a `RolledBackError`."""
        try:
            if not self._commit():
                logger.warning(
                    "%s: tasks %s were revoked while inputs are open that it has emitted for: everything since the "
                    "last commit is aborted and repeated",
                    self._component,
                    list(partitions),
                )
                raise RolledBackError("a task that holds back inputs was revoked")
        except RolledBackError:
            self._abort()
            raise
        finally:
            self._forget(partitions)

    def drop(self, partitions: Sequence[int]) -> None:
        """Aborts their transaction; a `RolledBackError` if that undid something of other tasks as well."""
        self._forget(partitions)
        if self._sink.is_used:
            self._abort()
            if self._tasks:
                raise RolledBackError(f"tasks {list(partitions)} were lost to others")

    def roll_back(self, why: str) -> None:
        self._counters.rollbacks += 1
        super().roll_back(why)
        self._abort()
        self._committed.clear()

    def close(self) -> None:
        """Aborts the open transaction, so that readers do not wait for its timeout."""
        self._sink.close()

    def _commit_if_whole(self, now: float) -> None:
        if self._commit() or self._since is None or now - self._since < self._sink.timeout / 2:
            return
        for partition, task in self._tasks.items():
            fits = not getattr(task.commit(self._reader.metadata_room, in_transaction=True), "left_out", 0)
            if not (fits and task.inputs.is_repeatable):
                oldest, seconds = task.inputs.oldest_open, self._sink.timeout / 2
                raise HeldBackError(self._component, partition, oldest, seconds, fits=fits)

    def _commit(self) -> bool:
        """Commits if there is anything to commit; False if it cannot be committed yet."""
        for task in self._tasks.values():
            task.flush()
        done = self._done()
        if not self._sink.is_used and done == self._committed:
            # The task that made it wait may have moved to another process.
            self._since = None
            return True
        if not all(task.inputs.is_repeatable for task in self._tasks.values()):
            return False
        commits = self._commits(self._tasks, in_transaction=True)
        if any(commit.left_out for commit in commits.values()):
            return False
        # First, so that the group fences this process if another one has the tasks, and commits, from now on.
        place = self._reader.place_in_group
        # Emits of a tick may precede all input. Without an offset, the group would not fence their transaction.
        positions = self._reader.positions(commits) if commits else self._reader.starts(tuple(self._tasks))
        try:
            self._sink.commit(positions, place)
        except RolledBackError as error:
            self._reader.metadata_refused(error, commits.values())
            raise
        self._committed = done
        self._since = None
        self._failures.clear()
        self._counters.transactions += 1
        return True

    def _abort(self) -> None:
        self._sink.abort()
        self._since = None

    def _done(self) -> dict[int, tuple[int, int, int]]:
        """How far each task is that has read anything, as far as it can be seen at once."""
        return {
            at: (task.committable, task.inputs.last_started, task.open_inputs)
            for at, task in self._tasks.items()
            if task.committable is not None
        }

    def _forget(self, partitions: Sequence[int]) -> None:
        super()._forget(partitions)
        for partition in partitions:
            self._committed.pop(partition, None)


def _bare(offsets: Mapping[int, int]) -> dict[int, Commit]:
    """Commits of offsets alone."""
    return {at: Commit(offset, "") for at, offset in offsets.items()}


GUARANTEES: Final[Mapping[Guarantee, type[DeliveryGuarantee]]] = {
    "at_least_once": AtLeastOnce,
    "at_most_once": AtMostOnce,
    "exactly_once": ExactlyOnce,
}
