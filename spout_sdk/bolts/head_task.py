"""The base of the tasks of a group: their steps, their sessions, and flushes of what the steps emit and settle."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from spout_sdk.api.topology import Topology
from spout_sdk.bolts.pause import Pause
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.bolts.step import Step
from spout_sdk.emitting.ack_log import AckLog
from spout_sdk.emitting.emit_plan import EmitPlan
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.open_inputs import OpenInputs
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.emitting.task import Task, has_lingered
from spout_sdk.emitting.transactional_outbox import TransactionalOutbox
from spout_sdk.errors import BrokerError, DeliveryError
from spout_sdk.records import Sink, TaskEnvironment
from tuple_tree.commit_metadata import Commit
from tuple_tree.ids import random_ids
from tuple_tree.messages import SESSION_BYTES, SpoutAddress
from tuple_tree.names import acks_topic
from tuple_tree.packs import MAX_ROWS

# Time to open sessions: enough to replace a failed broker, and less than a process has to stop.
OPEN_SECONDS: Final = 15.0
_FOREVER: Final = float("inf")


class HeadTask(ABC):
    """Base of `BoltTask` and `SpoutTask`: a task of a group, and the steps that run in it, each after its source.

    Tuples that a step emits for the next one wait until `run` executes them.

    Attributes:
        steps: its bolts; the first of a bolt's task executes the records of its inbox.
    """

    inputs: InputOffsets  # always empty in the task of a spout

    def __init__(
        self,
        topology: Topology,
        component: str,
        task: int,
        environment: TaskEnvironment,
        inputs: InputOffsets,
        spout: SpoutAddress | None = None,
    ) -> None:
        manifest = topology.manifest
        self.topology, self.environment = topology, environment
        self._component, self._task = component, task
        self._clock = environment.clock
        self.next_id = random_ids(environment.entropy).__next__
        writer, session = f"{component}/{task}", environment.entropy(SESSION_BYTES)
        to = (acks_topic(manifest.topology), manifest.ack_partitions)
        acks = AckLog(*to, writer, session, environment.sink, environment.clock, inputs, spout)
        inits_first = spout is not None and manifest.acking and topology.acks_ahead
        kind = TransactionalOutbox if environment.is_transactional else Outbox
        self.outbox = kind(component, environment, acks, self.next_id, sends_inits_first=inits_first)
        self.steps: list[Step] = []
        self._behind: list[Step] = []  # they receive what another step or the spout emits
        self._since: float | None = None  # when data was first found buffered after the last flush
        self._reset_every = manifest.reset_seconds
        self._reset_at = 0.0

    def _add_chained(self, plans: dict[str, EmitPlan], *, has_columns: bool = False) -> None:
        """Adds a step for each bolt that is chained to the component.

        Args:
            plans: of the component.
            has_columns: whether its bolt takes columns.
        """
        sources, task = {self._component: (plans, has_columns)}, self._task
        for bolt in self.topology.manifest.chained_to(self._component):
            (subscription,) = bolt.subscriptions
            plans, has_columns = sources[subscription.source]
            environment = replace(self.environment, counters=self.environment.chained[bolt.name])
            step = Step(
                *(self.topology, bolt.name, task, environment, self.outbox, OpenInputs(), self._component),
                receives_columns=has_columns,
            )
            for route in plans[subscription.stream].routes:
                if route.tasks == (step.id,):
                    (pack,) = route.packs
                    pack.step, pack.limit = step, MAX_ROWS
            sources[bolt.name] = step.plans, step.operator.takes_columns
            for each in self.steps:
                if each.id.component == subscription.source:
                    each.followers.append(step)
            self.steps.append(step)
            self._behind.append(step)

    @property
    def name(self) -> str:
        """Component and task, as `split/0`."""
        return f"{self._component}/{self._task}"

    def open_session(self) -> None:
        """Opens a session as this task's writer; it must be delivered before anything else is sent."""
        if self.topology.manifest.acking:
            self.outbox.acks.open()

    def prepare(self) -> None:
        """Prepares the steps, the last one first, because a bolt may emit in `prepare`."""
        for step in reversed(self.steps):
            step.prepare()

    @property
    def _members(self) -> Sequence[Task]:
        """The parts of the task that emit and send dead letters."""
        return self.steps

    @property
    def failure(self) -> DeliveryError | None:
        """Why the task cannot continue; None while it can."""
        letters = (member.dead_letters.failure for member in self._members)
        return next((each for each in letters if each is not None), self.outbox.acks.failure)

    @property
    def all_plans(self) -> list[EmitPlan]:
        """The emit plans of the task and of its steps."""
        return [plan for member in self._members for plan in member.plans.values()]

    @property
    def is_empty(self) -> bool:
        """Whether a flush has nothing to do."""
        return self.outbox.is_empty and not any(step.settlement.has_noted for step in self.steps)

    def run(self, until: float) -> bool:
        """Executes waiting tuples until about `until`, of the last step first; returns False if any are left.

        A bolt that can take no more tuples now holds up those before it, and not other branches; tuples that wait for
        it are not left.

        Raises:
            ComponentError: if a bolt raised, and its options or the number of failures end the task.
        """
        return self._run(self.steps, until)

    def _run(self, steps: Sequence[Step], until: float) -> bool:
        if not self._behind:  # nothing is passed on
            return not steps or steps[0].run(until)
        while steps:
            self.outbox.pass_on()
            step = _next(steps)
            if step is None:
                return True
            if not step.run(until):
                return False
        return True

    def tick(self, now: float) -> None:
        """Handles delivery reports, expires inputs, and flushes data that has lingered.

        Raises:
            DeliveryError: if an ack batch or a dead letter was not delivered.
        """
        for step in self.steps:
            step.tick(now)
        if now >= self._reset_at:
            self._reset_at = now + self._reset_every
            for step in self.steps:
                step.keep_alive(now, everything=self._keeps_waiting)
        self.outbox.handle_reports()
        if (failure := self.failure) is not None:
            raise failure
        if self.is_empty:
            self._since = None
        elif self._since is None:
            self._since = now
        elif has_lingered(now - self._since, self.environment.sink):
            self.flush()

    def execute_retries(self, now: float, until: float, *, others_wait: bool = False) -> int:
        """Executes due retries of each step, as `Executor.execute_retries` does, then the tuples that these emit."""
        calls = sum(
            step.execute_retries(now, until, others_wait=others_wait and step is self.steps[0]) for step in self.steps
        )
        self._run(self._behind, until)
        return calls

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
    def can_commit(self) -> bool:
        """Whether a transaction may end: an untracked tuple in a step behind is lost if its input is done."""
        return not self.has_untracked and all(step.settlement.can_commit for step in self.steps)

    def execute_untracked(self, until: float) -> None:
        """Executes steps until about `until`, if untracked tuples wait in them.

        The inputs that they were emitted for may be acked, and would not be read again after a commit.
        """
        self.outbox.pass_on()
        if self.has_untracked:
            self._run(self._behind, until)

    def finish(self, until: float) -> None:
        """Executes due retries and waiting tuples until `until`: the task ends, and its offsets are committed."""
        for step in self.steps:
            step.executor.finish(until)
            self.run(until)

    def flush(self) -> None:
        """Sends everything that is buffered, tuples before the acks of their inputs."""
        self._since = None
        for step in self.steps:
            step.settlement.writes.handle()
        self.outbox.flush()

    def wait(self, seconds: float) -> None:
        """Waits until a running input ends, at most `seconds`; does not wait if other inputs can be executed."""
        if _next(self.steps) is not None:
            return
        running = next((step for step in self.steps if step.operator.running_inputs), None)
        if running is not None:
            running.operator.wait(seconds)

    def forget_waiting(self) -> None:
        """Drops the inputs that wait inside a bolt: they stay open, and are read again."""
        for step in self.steps:
            step.operator.forget_waiting()

    def cleanup(self) -> None:
        """Cleans up the steps, in order; each executes what earlier cleanups emit, but no tuples that waited before."""
        self.outbox.pass_on()
        for step in self.steps:
            step.drop_waiting()
        with ExitStack() as ends:
            for step in reversed(self.steps):
                ends.callback(self._clean_up, step)

    def _clean_up(self, step: Step) -> None:
        step.cleanup()
        for each in self.steps:
            if each.failure is not None:
                raise each.failure
        self.run(_FOREVER)

    @property
    def has_untracked(self) -> bool:
        """Whether untracked tuples were passed on to a step, and are open."""
        return any(step.inputs.untracked for step in self._behind)

    @property
    def has_open(self) -> bool:
        """Whether any tuple that was passed on to a step is open."""
        return any(step.inputs.open_tuples for step in self._behind)

    @property
    def is_busy(self) -> bool:
        """Whether nothing can be executed, because a bolt can take no more tuples now."""
        return self.is_held_up and _next(self.steps) is None

    @property
    def is_held_up(self) -> bool:
        """Whether a bolt that can take no more tuples now holds up the source of the task."""
        return any(step.is_blocked for step in self.steps)

    @property
    def is_paused(self) -> bool:
        """Whether a bolt executes nothing now, because its calls raise."""
        return any(step.operator.failures.is_paused for step in self.steps)

    @property
    def busy_since(self) -> float | None:
        """Since when a long-running input leaves no room for other inputs; None if there is room."""
        times = (step.operator.busy_since for step in self.steps)
        return min((each for each in times if each is not None), default=None)

    @property
    def is_expected(self) -> bool:
        """Whether it takes no inputs because running inputs take long, but within their limit."""
        return any(step.operator.is_expected for step in self.steps)

    @property
    def stop_timeout(self) -> float:
        """How many seconds a stop waits for inputs that the bolts have begun."""
        return max((step.operator.stop_timeout for step in self.steps), default=0.0)

    @property
    def running_inputs(self) -> int:
        """How many inputs are being executed between two calls, or were passed on and wait for bolts that run."""
        passed_on = 0
        for step in reversed(self._behind):
            if step.waiting and step.operator.failures.pause is not None:
                break  # it holds up those before it
            passed_on += step.waiting
        return passed_on + sum(step.operator.running_inputs for step in self.steps)

    @property
    def waiting_retries(self) -> int:
        """Tuples that wait to be executed again."""
        return sum(step.settlement.retries.waiting for step in self.steps)

    @property
    def pause(self) -> Pause | None:
        """The pause of a bolt whose calls raise; None without one. Any thread may read it."""
        return next((pause for step in self.steps if (pause := step.operator.failures.pause) is not None), None)

    @property
    def running(self) -> RunningCall | None:
        """The call of `execute` that began last of the running ones; any thread may read it."""
        calls = (step.executor.running for step in reversed(self.steps))
        return next((call for call in calls if call is not None), None)

    @property
    def _keeps_waiting(self) -> bool:
        """Whether the trees of all open inputs are kept alive; those of an inbox are, by the `ExecuteWatch`."""
        return False


def _next(steps: Sequence[Step]) -> Step | None:
    """The step that is executed next: the last one with waiting tuples that no bolt after it holds up."""
    held_up: set[Step] = set()
    for step in reversed(steps):  # followers come first
        if step.failure is not None:
            return step
        if step.is_blocked or not held_up.isdisjoint(step.followers):
            held_up.add(step)
        elif step.waiting:
            return step
    return None


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
