"""One task of a bolt, without I/O: records in, tuples and ack batches out."""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from spout_sdk.ack_buffer import AckBuffer
from spout_sdk.arrow_collector import ArrowCollector, ColumnOutput, pack_codec
from spout_sdk.arrow_input import ArrowInput
from spout_sdk.async_bolt import AsyncBolt
from spout_sdk.basic_collector import FEWEST, BasicCollector
from spout_sdk.bolt_progress import BoltProgress
from spout_sdk.collectors import OutputCollector
from spout_sdk.components import AnyBolt, ArrowBolt, BasicBolt, BatchBolt, Bolt
from spout_sdk.context import TaskContext
from spout_sdk.counters import SAMPLE
from spout_sdk.dead_letters import BoltDeadLetters
from spout_sdk.emit_plans import emit_plans
from spout_sdk.errors import (
    ComponentError,
    DeliveryError,
    TopologyError,
)
from spout_sdk.execute_failures import ExecuteFailures
from spout_sdk.input_expiry import InputExpiry
from spout_sdk.options import DEFAULT_OPTIONS, checked_interval
from spout_sdk.records import TaskEnvironment
from spout_sdk.topology import Topology
from spout_sdk.tuple_reader import TupleReader
from spout_sdk.tuples import InputPack, Tuple, tick_tuple
from spout_sdk.windows.bolt import WindowedBolt
from tuple_tree.ids import random_ids
from tuple_tree.messages import SESSION_BYTES
from tuple_tree.names import acks_topic, tuples_topic

logger = logging.getLogger("spout_sdk.bolt")

EXPIRED_INPUTS: Final = "expired inputs"
"""Counts inputs that were settled because nothing acked or failed them in time."""

_FAST_SECONDS: Final = 0.0001
"""Of a tuple that is executed together with others between two looks at the clock."""
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
    """

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        self._component = component
        self._task = task
        self._counters = environment.counters
        self._load = environment.counters.load(task)
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
        self._basic = BasicCollector(self._collector, plans, self._acks, environment.entropy)
        self._options = topology.options.get(component, DEFAULT_OPTIONS)
        self._failures = ExecuteFailures(
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
        self._stride = 1
        self._untimed = 0
        try:
            bolt = topology.factory(component)()
        except Exception as error:
            raise self._broken("__init__", error) from error
        self._run: Callable[[Any], None]
        if isinstance(bolt, BasicBolt):
            self._bolt: AnyBolt = bolt
            self._user_execute: Any = bolt.execute
            self._run = self._execute_basic
        elif isinstance(bolt, Bolt):
            self._bolt = bolt
            self._run = bolt.execute
        elif isinstance(bolt, BatchBolt):
            self._bolt = bolt
            self._run = bolt.execute_batch
        elif isinstance(bolt, ArrowBolt):
            for subscription in getattr(manifest.component(component), "subscriptions", ()):
                pack_codec(subscription.source, manifest.stream(subscription.source, subscription.stream))
            self.columns = ColumnOutput(
                self._context,
                self._collector,
                self._acks,
                done,
                environment.entropy,
                topology.groupings,
                topology.pack_tuples,
            )
            self._bolt = bolt
            self._user_execute = bolt.execute_batch
            self._run = self._execute_arrow
        else:
            raise TopologyError(f"component {component!r} makes a {type(bolt).__name__}, which is no bolt: derive it")

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
        self._always_timed = bool(self._hooks)
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

    def execute(self, tuples: Iterator[Tuple], until: float) -> bool:
        """Executes tuples, one at a time.

        Args:
            tuples: of one record, from `read`; those that are executed are taken from it.
            until: a time on the task's clock; about then it stops.

        Returns:
            Whether none is left.

        Raises:
            ComponentError: if the bolt raised, and its options or the number of failures say that it stops then.
        """
        several = list(islice(tuples, self._stride))
        together = bool(several) and self._is_together(several[0].pack)
        run, most = self._execute_each if self._always_timed else self._execute_sampled, SAMPLE
        if together:
            run, most = self._execute_together, 2 * SAMPLE
            self._basic.begin(several[0].pack)
        started = began = self._clock()
        try:
            while several:
                count = len(several)
                self._counters.executed += count
                self._load.executed += count
                run(several)
                now = self._clock()
                seconds = (now - began) / count
                # A clock for each tuple would cost as much as a small bolt, and a slow bolt must not miss its ticks.
                self._stride = most if seconds < _FAST_SECONDS else 1
                if together:
                    self._counters.execute_latency.record(seconds)
                    self._counters.process_latency.record(seconds)
                if now >= until:
                    return False
                began = now
                several = list(islice(tuples, self._stride))
        finally:
            if together and self._basic.settle():
                self._failures.in_a_row = 0
            self._load.busy_seconds += self._clock() - started
        return True

    def _is_together(self, pack: InputPack) -> bool:
        """Whether the tuples of a record, one tree each, are executed by a `BasicBolt` and acked together."""
        return (
            isinstance(self._bolt, BasicBolt)
            and pack.size >= FEWEST
            and (self._acks is None or pack.ids is not None)
            and not (self._always_timed or self._collector.is_watched or pack.trace_context)
        )

    def _execute_together(self, tuples: list[Tuple]) -> None:
        basic, execute, failures = self._basic, self._user_execute, self._failures
        for tuple_ in tuples:
            basic.input = tuple_
            try:
                execute(tuple_, basic)
            except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
                if basic.leave_out(tuple_):
                    failures.in_a_row = 0
                failures.handle((tuple_,), error)
            else:
                basic.done.append(tuple_)

    def _execute_each(self, tuples: Sequence[Tuple]) -> None:
        for tuple_ in tuples:
            self._execute_timed(tuple_, (tuple_,))

    def _execute_sampled(self, tuples: list[Tuple]) -> None:
        """Executes tuples, and times one in `SAMPLE` of them."""
        self._untimed -= len(tuples)
        if self._untimed < 0:
            self._untimed = SAMPLE - len(tuples)
            first = tuples.pop(0)
            self._execute_timed(first, (first,))
        run = self._run
        for tuple_ in tuples:
            # The common case of `_execute`, spelled out.
            try:
                run(tuple_)
            except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
                self._failures.handle((tuple_,), error)
            else:
                self._failures.in_a_row = 0

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        """Executes tuples that were read together, with one call of the bolt.

        Raises:
            ComponentError: as `execute`.
        """
        self._counters.executed += len(tuples)
        self._load.executed += len(tuples)
        self._load.busy_seconds += self._execute_timed(tuples, tuples)

    def execute_columns(self, rows: ArrowInput) -> None:
        """Executes rows of a record, with one call of the bolt.

        Raises:
            ComponentError: as `execute`.
        """
        self._counters.executed += len(rows)
        failures = self._failures.in_a_row
        began = self._clock()
        try:
            self._run(rows)
        except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
            self._failures.handle(rows.taken_over(), error)
        else:
            self._failures.in_a_row = 0
        seconds = self._clock() - began
        self._counters.execute_latency.record(seconds)
        self._load.executed += len(rows)
        self._load.busy_seconds += seconds
        if self._hooks:
            self._call_executed_hooks(rows.tuples(np.arange(len(rows))), seconds, failures)

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
            self._execute(ticked, (ticked,))

    def _execute(self, given: Any, tuples: Sequence[Tuple]) -> None:
        """Calls the bolt.

        Args:
            given: what it is called with.
            tuples: all that it is given.
        """
        try:
            self._run(given)
        except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
            self._failures.handle(tuples, error)
        else:
            self._failures.in_a_row = 0

    def _execute_timed(self, given: Any, tuples: Sequence[Tuple]) -> float:
        """Calls the bolt, and takes the time: of the first tuple, if there are several. Returns the seconds."""
        failures = self._failures.in_a_row
        began = self._clock()
        self._collector.start_timing(tuples[0], began)
        self._execute(given, tuples)
        seconds = self._clock() - began
        self._counters.execute_latency.record(seconds)
        self._call_executed_hooks(tuples, seconds, failures)
        return seconds

    def _call_executed_hooks(self, tuples: Sequence[Tuple], seconds: float, failures: int) -> None:
        try:
            for hook in self._hooks:
                for tuple_ in tuples:
                    hook.bolt_execute(tuple_, seconds)
        except Exception as error:  # noqa: BLE001 - whatever a user's hook raises
            # One failure, whether the bolt has raised as well or not.
            self._failures.in_a_row = failures
            self._failures.handle(tuples, error)

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
        return isinstance(self._bolt, WindowedBolt | AsyncBolt)

    @property
    def progress(self) -> str:
        """What is committed with the offset, for `resume`; empty where there is nothing to say."""
        if not self.folds:
            return ""
        read = max(self._inputs.last_opened, self._dead_letters.kept_to)
        return BoltProgress(read, self._bolt._progress if isinstance(self._bolt, WindowedBolt) else "").metadata

    def resume(self, offset: int, metadata: str | None) -> None:
        """Goes on where another task was, before the first record is read.

        Args:
            offset: that was committed.
            metadata: what stands beside it.

        Raises:
            UnsupportedVersionError: if that was written by a version that this one cannot read.
        """
        if not self.folds or (progress := BoltProgress.of(offset, metadata)) is None:
            return
        self._dead_letters.kept_to = progress.read
        if isinstance(self._bolt, WindowedBolt):
            self._bolt._resume(progress.windows, offset)

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

    def _execute_basic(self, tuple_: Tuple) -> None:
        basic = self._basic
        basic.input = tuple_
        try:
            self._user_execute(tuple_, basic)
        finally:
            basic.input = None
        self._collector.ack(tuple_)

    def _execute_arrow(self, rows: ArrowInput) -> None:
        self._user_execute(rows.batch, ArrowCollector(self.columns, rows))

    def _broken(self, method: str, error: Exception) -> ComponentError:
        logger.exception("%s/%d: %s() raised", self._component, self._task, method)
        return ComponentError(self._component, self._task, method, error)
