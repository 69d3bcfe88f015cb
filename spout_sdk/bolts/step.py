"""A step of a task: a bolt, the inputs that wait for it, and their settlement."""

import math
from collections import deque
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.context import TaskId
from spout_sdk.api.topology import Topology
from spout_sdk.bolts.chain_reader import ChainReader
from spout_sdk.bolts.executor import Executor
from spout_sdk.bolts.input_rows import ArrowInput, InputRows, Inputs
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.open_inputs import OpenInputs
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.emitting.task import Task
from spout_sdk.errors import ComponentError
from spout_sdk.records import TaskEnvironment
from tuple_tree.components import BoltManifest

# The counter of inputs that were neither acked nor failed in time, and so were settled.
EXPIRED_INPUTS: Final = "expired inputs"
_MOST_WAITING: Final = 10_000  # tuples that wait for one bolt; if a call emits more, they are executed during the call

Read = InputRows | ArrowInput


class Step(Task):
    """A bolt in a task, whose outbox it uses: the first step takes records, each other what the step before it emits.

    Args:
        outbox: of the task.
        inputs: its open inputs; `InputOffsets` for the first step of a bolt's task.
        root: the component that the task belongs to, for a step that takes what another one emits.
        receives_columns: whether its inputs come as columns without a conversion.

    Attributes:
        id: its component and task.
        followers: the steps that receive what it emits.
        is_running: whether `run` runs.
        failure: raised by a call that was made during a call of the step before.
    """

    _logger = get_logger("spout_sdk.bolt")

    def __init__(
        self,
        topology: Topology,
        component: str,
        task: int,
        environment: TaskEnvironment,
        outbox: Outbox,
        inputs: OpenInputs,
        root: str | None = None,
        *,
        receives_columns: bool = True,
    ) -> None:
        self.outbox, self.inputs = outbox, inputs
        self.receives_columns = receives_columns
        super().__init__(topology, component, task, environment)
        self.id = TaskId(component, task)
        self.settlement = Settlement(self, inputs)
        outbox.settlements.append(self.settlement)
        self.bolt = self._make()
        self.executor = Executor(self.bolt, self, self.settlement)
        self.operator = self.executor.operator
        declared = topology.manifest.component(component)
        self._reader: ChainReader | None = None
        if root is not None and isinstance(declared, BoltManifest):
            self._reader = ChainReader(self, declared, root, self.settlement, self.operator)
        self.followers: list[Step] = []
        self._queue: deque[Read] = deque()
        self._begun: Inputs = ()  # what is executed now
        self._at, self._size = 0, 0  # of the next one, and how many these are
        self._queued = 0  # inputs in the queue
        self.is_running = False
        self.failure: ComponentError | None = None

    def prepare(self) -> None:
        """Prepares the bolt; raises `ComponentError` if it raised."""
        self._add_hooks()
        self._call("prepare", self.executor.prepare)

    def take(self, pack: OpenPack) -> None:
        """Receives the tuples of a pack; they wait until `run`."""
        if self._reader is None:
            raise AssertionError("the first step takes records")
        self.add(self._reader.read(pack))
        if self.waiting >= _MOST_WAITING and not self.is_running:
            self._run_meanwhile()

    def add(self, read: Read) -> int:
        """Adds inputs, which wait until `run`; returns how many."""
        if count := len(read):
            self._queue.append(read)
            self._queued += count
        return count

    @property
    def waiting(self) -> int:
        """How many inputs are not executed; any thread may read it."""
        return self._queued + self._size - self._at

    @property
    def wants(self) -> int:
        """How many inputs should wait before the next call."""
        operator = self.operator
        return operator.size.tuples if operator.takes_several and not operator.takes_columns else 1

    def run(self, until: float) -> bool:
        """Executes waiting inputs until about `until`; returns False if the bolt is not busy and has inputs left.

        Raises:
            ComponentError: if the bolt raised, and its options or the number of failures end the task.
        """
        if self.is_running:
            return False
        if self.failure is not None:
            raise self.failure
        self.is_running = True
        try:
            operator, executor = self.operator, self.executor
            while self._queue or self._at < self._size:
                if operator.is_busy:
                    break
                if self._at >= self._size:
                    self._begin()
                inputs = self._begun
                count, most = self._size - self._at, executor.most
                if self._at or most < count:
                    inputs, count = inputs[self._at : self._at + most], min(count, most)
                # Tuples of a call of several are lost together if it ends the process, and are counted then.
                self._at += 0 if operator.takes_several else count
                now = executor.execute(inputs)
                self._at += count if operator.takes_several else 0
                if now >= until:
                    return not self.waiting or operator.is_busy
            return True
        finally:
            self.is_running = False

    def tick(self, now: float) -> None:
        """Handles delivery reports, expires inputs, and executes a tick tuple if one is due."""
        self.settlement.writes.handle()
        if stale := self.inputs.expired(now, self.executor.input_age):
            inputs = sum(pack.settled.count(0) for pack in stale)
            self.settlement.expire(stale)
            self._drop_expired()
            self.context.count(EXPIRED_INPUTS, inputs)
            first = stale[0]
            where = f"{first.record.topic()}[{first.partition}]"
            hint = f". Its roots: acker trace --tuple {self.name}@{first.offset}" if self._reader is None else ""
            text = (
                "%s: %d inputs of %s were neither acked nor failed for %.0f s, the first at offset %d. Their trees "
                "have failed, so they are settled; ack or fail each input%s"
            )
            self._logger.error(text, self.name, inputs, where, self.executor.input_age, first.offset, hint)
        self.executor.tick(now)

    def keep_alive(self, now: float, *, everything: bool) -> None:
        """Restarts the clocks of trees that wait for the task, and not for the user's code: this is called regularly.

        Args:
            everything: whether all open inputs wait for the task; they do as well if the operator runs them between
                calls. Otherwise only inputs that are executed again do.
        """
        self.settlement.retries.look(now)
        if everything or not self.operator.can_expire:
            self.settlement.keep_open_alive()

    def execute_retries(self, now: float, until: float, *, others_wait: bool = False) -> int:
        """Executes due retries, as `Executor.execute_retries` does; returns how many calls it made."""
        return self.executor.execute_retries(now, until, others_wait=others_wait or self.waiting > 0)

    @property
    def is_blocked(self) -> bool:
        """Whether inputs wait, and the bolt can take none now."""
        return self.waiting > 0 and self.operator.is_busy

    def cleanup(self) -> None:
        """Cleans up the bolt, which may still ack."""
        self._end("cleanup", self.operator.cleanup)

    def drop_waiting(self) -> None:
        """Drops waiting inputs, because the task ends; they stay open."""
        self._queue.clear()
        self._begun, self._at, self._size, self._queued = (), 0, 0, 0

    def _begin(self) -> None:
        """Begins with the next inputs; a bolt that takes batches gets tuples of several packs in a call."""
        read: Inputs = self._next()
        if isinstance(read, InputRows) and (size := self.wants) > 1:
            read = read.tuples()
            while len(read) < size and self._queue:
                read += self._next().tuples()
        self._begun, self._at, self._size = read, 0, len(read)

    def _next(self) -> Any:
        read = self._queue.popleft()
        self._queued -= len(read)
        return read

    def _run_meanwhile(self) -> None:
        """Executes the inputs that wait during a call of the step before, which may emit any number of tuples."""
        try:
            self.run(math.inf)
        except ComponentError as error:
            # Raised later by `run`: the code of the step before may catch exceptions of `emit`.
            self.failure = self.failure or error

    def _drop_expired(self) -> None:
        """Drops waiting inputs of expired packs."""
        begun = self._begun[self._at :]
        if isinstance(begun, InputRows | ArrowInput):
            begun = begun[:0] if begun.pack.has_expired else begun
        else:
            begun = [each for each in begun if not each.pack.has_expired]
        queue = [each for each in self._queue if not each.pack.has_expired]
        self.drop_waiting()
        self._begun, self._size = begun, len(begun)
        for read in queue:
            self.add(read)
