"""The chain of a task: the bolts that run in it, each after the one whose tuples it receives."""

import math
from collections.abc import Callable, Iterator
from typing import Final

from spout_sdk.bolts.pause import Pause
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.chains.chained_task import ChainedTask
from spout_sdk.emitting.emit_plan import EmitPlan
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.task import Task
from spout_sdk.errors import ComponentError
from tuple_tree.payloads import MAX_ROWS

_MOST_WAITING: Final = 10_000  # tuples of one call of a bolt that wait for the next bolts; more are executed meanwhile


class Chain:
    """The chained bolts of a task; it has none if no bolt is chained to the component.

    What a bolt emits for the next one is collected, and executed when it has been called for a while: `run`. What is
    settled of it is noted when the task flushes: `settle`.

    Args:
        head: the task, which has its outbox.
        head_takes: what the adapter of the head takes, if that is a bolt.
        settle_head: settles the inputs of the task, after those of the chained bolts; None for a spout.
    """

    def __init__(self, head: Task, head_takes: str = "", settle_head: Callable[[], None] | None = None) -> None:
        self._outbox = head.outbox
        self._settle_head = settle_head or (lambda: None)
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
                    pack.hand_over, pack.limit = self._taker(task), MAX_ROWS
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
        """How the bolts emit."""
        return [plan for task in self._tasks for plan in task.plans.values()]

    def prepare(self) -> None:
        """Prepares the bolts, the last first: one may emit as it is prepared."""
        for task in reversed(self._tasks):
            task.prepare()

    def run(self, until: float) -> bool:
        """Executes what waits, until about a time of the clock; returns whether nothing is left but for busy bolts.

        Raises:
            ComponentError: if a bolt raised, and its options or the number of failures end the task.
        """
        if not self._tasks:
            return True
        if (failure := self._failure) is not None:
            raise failure
        self._outbox.hand_over()
        for task in self._tasks:
            if not task.run(until):
                return False
            self._outbox.hand_over()
        return True

    def settle(self) -> None:
        """Hands over what was emitted, and settles what is done of the inputs; executes nothing."""
        self._outbox.hand_over()
        for task in self._tasks:
            task.outcomes.settle()
        self._settle_head()

    def settle_written(self) -> None:
        """Settles tuples by the delivery reports of what was written for them."""
        for task in self._tasks:
            task.outcomes.settle_written()

    def tick(self, now: float) -> None:
        """Does what is due of each bolt, and executes what follows."""
        for task in self._tasks:
            task.tick(now)

    def execute_retries(self, now: float, until: float) -> int:
        """As `Executor.execute_retries`; then executes what waits. Returns how many calls of retries it made."""
        if not self._tasks:
            return 0
        calls = sum(task.execute_retries(now, until) for task in self._tasks)
        self.run(until)
        return calls

    def finish(self, until: float) -> None:
        """Executes all that waits, until a time, as the task ends and its inputs are committed."""
        for task in self._tasks:
            task.executor.finish(until)
            self.run(until)

    def forget_waiting(self) -> None:
        """Begins none of the inputs that wait for others in a bolt: they stay open, and are read again."""
        for task in self._tasks:
            task.adapter.forget_waiting()

    def cleanup(self) -> None:
        """Cleans the bolts up, in order; what one still emits is executed by the next."""
        for task in self._tasks:
            self.run(self._clock())
            task.cleanup()

    def wait(self, seconds: float) -> None:
        """Waits until a running input ends, `seconds` at most; not while others can be executed."""
        if all(task.adapter.is_busy for task in self._tasks if task.has_waiting):
            running = next((task for task in self._tasks if task.adapter.running_inputs), None)
            if running is not None:
                running.adapter.wait(seconds)

    @property
    def is_busy(self) -> bool:
        """Whether tuples wait for a bolt that can take no more now."""
        return any(task.has_waiting and task.adapter.is_busy for task in self._tasks)

    @property
    def holds_inputs(self) -> bool:
        """Whether bolts hold inputs on purpose: they pause, retry, or wait for something."""
        return any(
            task.adapter.failures.pause is not None or task.outcomes.retries.waiting or task.adapter.running_inputs
            for task in self._tasks
        )

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
        return not any(task.outcomes.has_noted for task in self._tasks)

    @property
    def running_inputs(self) -> int:
        """How many inputs are being executed between two calls, or wait for bolts that do not pause."""
        return sum(
            task.adapter.running_inputs + (0 if task.adapter.failures.pause else task.waiting) for task in self._tasks
        )

    @property
    def unanchored(self) -> int:
        """How many effects the bolts had that may be those of any open input."""
        return sum(task.outcomes.unanchored for task in self._tasks)

    @property
    def pause(self) -> Pause | None:
        """The pause of one of the bolts, if its calls raise; for another thread, too."""
        return next((pause for task in self._tasks if (pause := task.adapter.failures.pause) is not None), None)

    @property
    def running(self) -> RunningCall | None:
        """The call of `execute` that runs now, the last one that began; for another thread."""
        calls = (task.executor.running for task in reversed(self._tasks))
        return next((call for call in calls if call is not None), None)

    def _taker(self, task: ChainedTask) -> Callable[[OpenPack], None]:
        def take(pack: OpenPack) -> None:
            task.take(pack)
            if task.waiting >= _MOST_WAITING:
                self._run_meanwhile(task)

        return take

    def _run_meanwhile(self, task: ChainedTask) -> None:
        """Executes what waits for a bolt while the one before it emits: one call may emit any number of tuples."""
        try:
            task.run(math.inf)
        except ComponentError as error:
            # Not raised in the code of the one before, which may catch it.
            self._failure = self._failure or error
