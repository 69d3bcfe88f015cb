"""The base of the tasks of a group: their sessions, and flushes of what they and their chained bolts send."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from spout_sdk.api.topology import Topology
from spout_sdk.chains.chain import Chain
from spout_sdk.emitting.ack_log import AckLog
from spout_sdk.emitting.emit_plan import EmitPlan
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.emitting.task import LINGER_SECONDS, Task
from spout_sdk.errors import BrokerError, DeliveryError
from spout_sdk.records import Sink, TaskEnvironment
from tuple_tree.commit_metadata import Commit
from tuple_tree.messages import SESSION_BYTES, SpoutAddress
from tuple_tree.names import acks_topic

# Time to open sessions: enough to replace a failed broker, and less than a process has to stop.
OPEN_SECONDS: Final = 15.0


class HeadTask(Task):
    """Base of `BoltTask` and `SpoutTask`: a task of a group, which sends for itself and its chained bolts.

    Attributes:
        chain: its chained bolts.
    """

    chain: Chain
    inputs: InputOffsets  # none of a spout

    def __init__(
        self,
        topology: Topology,
        component: str,
        task: int,
        environment: TaskEnvironment,
        inputs: InputOffsets,
        spout: SpoutAddress | None = None,
    ) -> None:
        super().__init__(topology, component, task, environment)
        manifest = topology.manifest
        writer, session = f"{component}/{task}", environment.entropy(SESSION_BYTES)
        to = (acks_topic(manifest.topology), manifest.ack_partitions)
        acks = AckLog(*to, writer, session, environment.sink, environment.clock, inputs, spout)
        inits_first = spout is not None and manifest.acking and topology.acks_ahead
        self.outbox = Outbox(component, environment, acks, self.next_id, sends_inits_first=inits_first)
        self._since: float | None = None  # when data was first found buffered after the last flush

    def open_session(self) -> None:
        """Opens a session as this task's writer; it must be delivered before anything else is sent."""
        if self.context.manifest.acking:
            self.outbox.acks.open()

    @property
    def failure(self) -> DeliveryError | None:
        """Why the task cannot continue; None while it can."""
        letters = (self.dead_letters, *(task.dead_letters for task in self.chain))
        return next((each.failure for each in letters if each.failure is not None), self.outbox.acks.failure)

    @property
    def all_plans(self) -> list[EmitPlan]:
        """The emit plans of the task and of its chained bolts."""
        return [*self.plans.values(), *self.chain.plans]

    @property
    def is_empty(self) -> bool:
        """Whether a flush has nothing to do."""
        return self.outbox.is_empty and self.chain.is_settled

    def tick(self, now: float) -> None:
        """Handles delivery reports, and flushes data that was buffered for `LINGER_SECONDS`.

        Raises:
            DeliveryError: if an ack batch or a dead letter was not delivered.
        """
        self.outbox.handle_reports()
        if (failure := self.failure) is not None:
            raise failure
        if self.is_empty:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= LINGER_SECONDS:
            self.flush()

    @property
    @abstractmethod
    def progress_key(self) -> Any:
        """A value that changes whenever the progress of the task changes; None without any."""

    @abstractmethod
    def commits(self, room: int, *, in_transaction: bool) -> Mapping[Any, Commit]:
        """The next commits, by topic and partition: inputs that are done, and delivered if not `in_transaction`.

        `room` is the largest size of the metadata of each, in bytes.
        """

    def committed(self) -> None:
        """Called when the result of the last `commits` is committed."""

    def note_done(self) -> None:
        """Prepares the commit after the next one."""

    def release(self) -> None:
        """Prepares the last commit: the task ends."""
        self.note_done()

    @property
    @abstractmethod
    def is_repeatable(self) -> bool:
        """Whether each open input can be read again: no effect would be repeated, and no untracked tuple lost."""

    def execute_untracked(self, until: float) -> None:
        """Executes the chain until about `until`, if untracked tuples wait in it.

        The inputs that they were emitted for may be acked, and would not be read again after a commit.
        """
        if self.chain:
            self.outbox.pass_on()
            if self.chain.has_untracked:
                self.chain.run(until)

    def flush(self) -> None:
        """Sends everything that is buffered, tuples before the acks of their inputs."""
        self._since = None
        self.chain.settle_written()
        self.outbox.flush()


def open_sessions(sink: Sink, tasks: Sequence[HeadTask]) -> None:
    """Opens sessions, before tasks do anything else; raises `BrokerError` if they are not delivered in time."""
    for task in tasks:
        task.open_session()
    left = sink.flush_acks(OPEN_SECONDS)
    for task in tasks:
        if task.failure is not None:
            raise task.failure
    if left:
        raise BrokerError(
            f"the sessions of {len(tasks)} tasks could not be opened: {left} ack batches were not delivered within "
            f"{OPEN_SECONDS:.0f} s; check that the partitions of the ack topic have leaders"
        )
