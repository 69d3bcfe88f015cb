"""The chain of a task: the bolts that run in it, each after its source."""

import math
from collections.abc import Callable, Iterator
from typing import Final

from spout_sdk.bolts.pause import Pause
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.chains.chained_task import ChainedTask
from spout_sdk.chains.noted_outcomes import HeadOutcomes
from spout_sdk.emitting.emit_plan import EmitPlan
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.task import Task
from spout_sdk.errors import ComponentError
from tuple_tree.payloads import MAX_ROWS

_MOST_WAITING: Final = 10_000  # tuples that wait for one bolt; if a call emits more, they are executed during the call


class Chain:
    """The chained bolts of a task; it is empty if no bolt is chained to the component.

    Tuples that a bolt emits to the next bolt wait until `run` executes them. A flush of the task calls `settle`, which
    settles the inputs that were acked or failed.

    Args:
        head: the task, whose outbox the chained bolts use.
        head_takes: what the adapter of the head takes, if the head is a bolt.
        outcomes: of the inputs of the head, settled after the inputs of the chained bolts; None for a spout.
    """

    def __init__(self, head: Task, head_takes: str = "", outcomes: HeadOutcomes | None = None) -> None:
        self._outbox = head.outbox
        self._head_outcomes = outcomes
        self._clock = head.environment.clock
        self._failure: ComponentError | None = None
        tasks = {head.context.component: (head.plans, head_takes)}
        self._tasks: list[ChainedTask] = []
        for bolt in head.topology.manifest.chained_to(head.context.component):
            (subscription,) = bolt.subscriptions
            plans, takes = tasks[subscription.source]
            task = ChainedTask(head, bolt, receives_columns=takes == "columns")
            for route in plans[subscription.stream].routes:
                if route.tasks == (task.id,):
                    (pack,) = route.packs
                    pack.pass_on, pack.limit = self._taker(task), MAX_ROWS
            tasks[bolt.name] = task.plans, task.adapter.takes
            self._tasks.append(task)
        if self._tasks:
            self._outbox.settle = self.settle

    def __iter__(self) -> Iterator[ChainedTask]:
        return iter(self._tasks)

    def __bool__(self) -> bool:
        return bool(self._tasks)

    @property
    def plans(self) -> list[EmitPlan]:
        return [plan for task in self._tasks for plan in task.plans.values()]

    def prepare(self) -> None:
        """Prepares the bolts, the last one first, because a bolt may emit in `prepare`."""
        for task in reversed(self._tasks):
            task.prepare()

    def run(self, until: float) -> bool:
        """Executes waiting tuples until about `until`; returns False if a bolt that is not busy has tuples left.

        Raises:
            ComponentError: if a bolt raised, and its options or the number of failures end the task.
        """
        if not self._tasks:
            return True
        if (failure := self._failure) is not None:
            raise failure
        self._outbox.pass_on()
        for task in self._tasks:
            if not task.run(until):
                return False
            self._outbox.pass_on()
        return True

    def settle(self) -> None:
        """Passes emitted tuples to the bolts without executing them, and settles the inputs that are done."""
        self._outbox.pass_on()
        for task in self._tasks:
            task.outcomes.settle()
        if self._head_outcomes is not None:
            self._head_outcomes.settle()

    def settle_written(self) -> None:
        """Settles tuples by the delivery reports of the records that were written for them."""
        for task in self._tasks:
            task.outcomes.settle_written()

    def tick(self, now: float) -> None:
        """Handles delivery reports, expires inputs and executes due ticks of each bolt."""
        for task in self._tasks:
            task.tick(now)

    def execute_retries(self, now: float, until: float) -> int:
        """Executes due retries of each bolt, then waiting tuples; returns how many calls of retries it made."""
        if not self._tasks:
            return 0
        calls = sum(task.execute_retries(now, until) for task in self._tasks)
        self.run(until)
        return calls

    def finish(self, until: float) -> None:
        """Executes due retries and waiting tuples until `until`: the task ends, and its offsets are committed."""
        for task in self._tasks:
            task.executor.finish(until)
            self.run(until)

    def forget_waiting(self) -> None:
        """Drops the inputs that wait inside a bolt: they stay open, and are read again."""
        for task in self._tasks:
            task.adapter.forget_waiting()

    def cleanup(self) -> None:
        """Cleans up the bolts, in order; each executes what earlier cleanups emit, but no tuples that waited before."""
        self._outbox.pass_on()
        for task in self._tasks:
            task.drop_waiting()
        for task in self._tasks:
            task.cleanup()
            if self._failure is None:
                self.run(math.inf)

    def wait(self, seconds: float) -> None:
        """Waits until a running input ends, at most `seconds`; does not wait if other inputs can be executed."""
        if all(task.adapter.is_busy for task in self._tasks if task.has_waiting):
            running = next((task for task in self._tasks if task.adapter.running_inputs), None)
            if running is not None:
                running.adapter.wait(seconds)

    @property
    def is_busy(self) -> bool:
        """Whether tuples wait for a bolt that can take no more tuples now."""
        return any(task.has_waiting and task.adapter.is_busy for task in self._tasks)

    def keep_paused_alive(self) -> None:
        """Restarts the clocks of the trees whose tuples wait for bolts that pause."""
        for task in self._tasks:
            if task.adapter.failures.pause is not None:
                task.outcomes.keep_open_alive()

    @property
    def has_untracked(self) -> bool:
        """Whether untracked tuples are open."""
        return any(task.inputs.untracked for task in self._tasks)

    @property
    def has_open(self) -> bool:
        """Whether any chained input is open."""
        return any(task.inputs.open_tuples for task in self._tasks)

    @property
    def is_paused(self) -> bool:
        """Whether a bolt executes nothing now, because its calls raise."""
        return any(task.adapter.failures.is_paused for task in self._tasks)

    @property
    def is_settled(self) -> bool:
        """Whether nothing was acked or failed since the last flush."""
        head = self._head_outcomes
        return not (any(task.outcomes.has_noted for task in self._tasks) or (head is not None and head.has_noted))

    @property
    def running_inputs(self) -> int:
        """How many inputs are being executed between two calls, or wait for bolts that do not pause."""
        return sum(
            task.adapter.running_inputs + (0 if task.adapter.failures.pause else task.waiting) for task in self._tasks
        )

    @property
    def unanchored(self) -> int:
        """How many tuples and records of the bolts may be effects of any open input."""
        return sum(task.outcomes.unanchored for task in self._tasks)

    @property
    def pause(self) -> Pause | None:
        """The pause of a bolt whose calls raise; None without one. Any thread may read it."""
        return next((pause for task in self._tasks if (pause := task.adapter.failures.pause) is not None), None)

    @property
    def running(self) -> RunningCall | None:
        """The call of `execute` that began last of the running ones; any thread may read it."""
        calls = (task.executor.running for task in reversed(self._tasks))
        return next((call for call in calls if call is not None), None)

    def _taker(self, task: ChainedTask) -> Callable[[OpenPack], None]:
        def take(pack: OpenPack) -> None:
            task.take(pack)
            if task.waiting >= _MOST_WAITING and not task.is_running:
                self._run_meanwhile(task)

        return take

    def _run_meanwhile(self, task: ChainedTask) -> None:
        """Executes the tuples that wait for a bolt during a call of its source, which may emit any number of tuples."""
        try:
            task.run(math.inf)
        except ComponentError as error:
            # Raised later by `run`: the code of the source may catch exceptions of `emit`.
            self._failure = self._failure or error
