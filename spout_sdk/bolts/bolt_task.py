"""One task of a bolt, without I/O: records in, tuples and ack batches out."""

import logging
from typing import Final

from spout_sdk.api.components import AnyBolt, ArrowBolt, BasicBolt, BatchBolt, Bolt
from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import InputPack, tick_tuple
from spout_sdk.bolts.arrow_collector import ColumnOutput, pack_codec
from spout_sdk.bolts.basic_collector import BasicCollector
from spout_sdk.bolts.bolt_progress import BoltProgress
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.execute_failures import ExecuteFailures
from spout_sdk.bolts.executor import Executor
from spout_sdk.bolts.tuple_reader import TupleReader
from spout_sdk.emitting.ack_buffer import AckBuffer
from spout_sdk.emitting.dead_letters import BoltDeadLetters
from spout_sdk.emitting.emit_plans import emit_plans
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.input_offsets import InputExpiry
from spout_sdk.errors import (
    ComponentError,
    DeliveryError,
    TopologyError,
)
from spout_sdk.topologies.topology import DEFAULT_OPTIONS, Topology, checked_interval
from tuple_tree.ids import random_ids
from tuple_tree.messages import SESSION_BYTES
from tuple_tree.names import acks_topic, tuples_topic

logger = logging.getLogger("spout_sdk.bolt")

EXPIRED_INPUTS: Final = "expired inputs"
"""Counts inputs that were settled because nothing acked or failed them in time."""

_MOST_UNCOMMITTED: Final = 1_000_000
"""Records and tuples of a task that are open, or done behind an open one; so many take some hundred megabytes."""


class BoltTask:
    """Executes the records of one partition of a bolt's inbox.

    In order: `open_session`, wait until that was delivered, `prepare`, then `read` for each record, `execute` for its
    tuples and `tick` now and then, `flush` when the input has run dry, `cleanup` at the end. Whatever `committable`
    says may be committed.

    Args:
        topology: whose.
        component: the bolt's name.
        task: which of its tasks.
        environment: the world around it.

    Attributes:
        read: the tuples of a record; what cannot be read is a dead letter.
        read_columns: the same for an `ArrowBolt`.
        execute, execute_batch, execute_columns: execute what was read; see `Executor`.
    """

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        self._component = component
        self._task = task
        self._counters = environment.counters
        self._context = TaskContext(
            manifest, component, task, environment.counters, environment.clock, environment.kafka
        )
        self._inbox = tuples_topic(manifest.topology, component)
        self._inputs = environment.inputs(lambda: self._collector.packer.emitted)
        self._acks: AckBuffer | None = None
        if manifest.acking:
            self._acks = AckBuffer(
                acks_topic(manifest.topology),
                manifest.ack_partitions,
                f"{component}/{task}",
                environment.entropy(SESSION_BYTES),
                environment.sink,
                self._inputs,
            )
        done = self._done if self._acks is None else self._acks.cover
        self._dead_letters = BoltDeadLetters(self._context, environment.counters, environment.sink, self._acks, done)
        reader = TupleReader(manifest, component, self._inputs, self._dead_letters.reject)
        self.read = reader.read
        self.read_columns = reader.read_columns
        self._clock = environment.clock
        self._hooks = self._context.hooks
        self._hook_factories = topology.hooks
        next_id = random_ids(environment.entropy).__next__
        plans = emit_plans(manifest, component, next_id, topology.groupings, topology.pack_tuples)
        self._collector = OutputCollector(self._context, plans, environment, next_id, self._acks, done)
        self._options = topology.options.get(component, DEFAULT_OPTIONS)
        failures = ExecuteFailures(
            component,
            task,
            self._options,
            self._collector,
            environment.counters,
            self._dead_letters,
            environment.clock,
        )
        slowest_ms = max((spout.timeout_ms for spout in manifest.spouts), default=0)
        input_age = (manifest.max_tree_age_ms + slowest_ms) / 1000
        self._expiry = InputExpiry(self._inputs, input_age, component, self._inbox, task, environment.clock())
        try:
            bolt = topology.factory(component)()
        except Exception as error:
            raise self._broken("__init__", error) from error
        if not isinstance(bolt, AnyBolt):
            raise TopologyError(f"component {component!r} makes a {type(bolt).__name__}, which is no bolt: derive it")
        self._bolt: AnyBolt = bolt
        self._holding = bolt if isinstance(bolt, Bolt) and bolt._holds_inputs else None
        columns = None
        if isinstance(bolt, ArrowBolt):
            for subscription in getattr(manifest.component(component), "subscriptions", ()):
                pack_codec(subscription.source, manifest.stream(subscription.source, subscription.stream))
            self.columns = columns = ColumnOutput(
                self._context,
                self._collector,
                self._acks,
                environment.entropy,
                topology.groupings,
                topology.pack_tuples,
            )
        self._executor = Executor(
            bolt,
            self._context,
            self._collector,
            BasicCollector(self._collector, plans, self._acks, environment.entropy),
            columns,
            failures,
            environment.counters.load(task),
            environment.clock,
            manifest.acking,
        )
        self.execute = self._executor.execute
        self.execute_batch = self._executor.execute_batch
        self.execute_columns = self._executor.execute_columns

    def open_session(self) -> None:
        """Opens a session as this task's writer; it must be delivered before anything is executed."""
        if self._acks is not None:
            self._acks.open()

    def prepare(self) -> None:
        """Prepares the bolt.

        Raises:
            ComponentError: if it raised.
        """
        try:
            for make in self._hook_factories:
                self._context.add_hook(make())
            if isinstance(self._bolt, BasicBolt | ArrowBolt):
                self._bolt.prepare(self._context)
            else:
                self._bolt.prepare(self._context, self._collector)
        except Exception as error:
            raise self._broken("prepare", error) from error
        self._executor.always_timed = bool(self._hooks)
        self._tick_interval = self._options.tick_interval
        if self._tick_interval is None and isinstance(self._bolt, Bolt | BasicBolt):
            self._tick_interval = checked_interval(self._component, self._bolt.tick_interval)
        self._tick_at = self._clock() + (self._tick_interval or 0.0)

    @property
    def takes_batches(self) -> bool:
        """Whether tuples are executed with `execute_batch` instead of one by one."""
        return isinstance(self._bolt, BatchBolt)

    @property
    def takes_columns(self) -> bool:
        """Whether rows of a record are executed together, as columns."""
        return isinstance(self._bolt, ArrowBolt)

    def _done(self, pack: InputPack) -> None:
        self._inputs.done((pack,))

    def tick(self, now: float) -> None:
        """Sends what has lingered, and tells the bolt that time has passed.

        Raises:
            DeliveryError: if an ack batch or a dead letter was not delivered; the task cannot go on.
            ComponentError: as `execute`.
        """
        if self._dead_letters.failure is not None:
            raise self._dead_letters.failure
        self._collector.packer.tick(now)
        if self._acks is not None:
            self._acks.tick(now)
        if stale := self._expiry.expire(now):
            self._context.count(EXPIRED_INPUTS, stale)
        if self._tick_interval is not None and now >= self._tick_at:
            # Counted from now: ticks that were missed are not made up for.
            self._tick_at = now + self._tick_interval
            ticked = tick_tuple()
            self._executor.call(ticked, (ticked,))

    def flush(self) -> None:
        """Sends all that is buffered, because the input has run dry or the task ends."""
        self._collector.packer.flush()
        if self._acks is not None:
            self._acks.flush()

    def cleanup(self) -> None:
        """Cleans the bolt up; it may still ack. An exception is only logged, because the task ends anyway."""
        for clean in (self._bolt.cleanup, *(hook.cleanup for hook in self._hooks)):
            try:
                clean()
            except Exception:  # whatever a user's bolt raises
                logger.exception("%s/%d: cleanup() raised", self._component, self._task)

    @property
    def bolt(self) -> AnyBolt:
        """The user's instance."""
        return self._bolt

    @property
    def collector(self) -> OutputCollector:
        """What the bolt emits, acks and fails through."""
        return self._collector

    @property
    def folds(self) -> bool:
        """Whether offsets may be committed whichever inputs the bolt holds, with `progress` beside them."""
        return self._holding is not None

    @property
    def progress(self) -> str:
        """What is committed with the offset, for `resume`; empty where there is nothing to say."""
        if self._holding is None:
            return ""
        read = max(self._inputs.last_opened, self._dead_letters.kept_to)
        return BoltProgress(read, self._holding._window_progress).metadata

    def resume(self, offset: int, metadata: str | None) -> None:
        """Goes on where another task was, before the first record is read.

        Args:
            offset: that was committed.
            metadata: what stands beside it.

        Raises:
            UnsupportedVersionError: if that was written by a version that this one cannot read.
        """
        if self._holding is not None and (progress := BoltProgress.of(offset, metadata)):
            self._dead_letters.kept_to = progress.read
            self._holding._resume_windows(progress.windows, offset)

    @property
    def failure(self) -> DeliveryError | None:
        """Why the task cannot go on; None as long as it can."""
        failure = self._dead_letters.failure
        return self._acks.failure if failure is None and self._acks is not None else failure

    @property
    def committable(self) -> int | None:
        """The input offset that may be committed; None if nothing was executed yet."""
        return self._inputs.committable

    @property
    def is_full(self) -> bool:
        """Whether so many inputs are open, or done behind an open one, that no more should be read."""
        return self._inputs.weight >= _MOST_UNCOMMITTED

    @property
    def open_inputs(self) -> int:
        """How many records are not done."""
        return self._inputs.open_count

    def oldest_input(self, now: float) -> tuple[float, str]:
        """The input that is open for longest: for how many seconds, to within one, and where it lies."""
        return self._expiry.oldest(now)

    def _broken(self, method: str, error: Exception) -> ComponentError:
        logger.exception("%s/%d: %s() raised", self._component, self._task, method)
        return ComponentError(self._component, self._task, method, error)
