"""One task of a bolt, without I/O: records in, tuples and ack batches out."""

import math
from functools import partial
from typing import Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.topology import BoltOptions, Topology
from spout_sdk.arguments import check_seconds
from spout_sdk.bolts.adapters import adapter_of
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.executor import Executor
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.bolts.pause import Pause
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.bolts.tuple_reader import TupleReader
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.task import Task
from spout_sdk.errors import UnsupportedVersionError
from spout_sdk.records import TaskEnvironment
from spout_sdk.statistics.stats import NO_INPUT
from tuple_tree.commit_metadata import DONE, LARGEST_METADATA, READ, Commit, read_commit_metadata, read_metadata
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.names import tuples_topic

# The counter of inputs that were neither acked nor failed in time, and so were settled.
EXPIRED_INPUTS: Final = "expired inputs"
_MICROSECOND: Final = 1e-6  # the sum of tick intervals is rounded
_MOST_OPEN: Final = 1_000_000  # tuples of open records of a task; they take some hundred megabytes


class BoltTask(Task):
    """Executes the records of one partition of a bolt's inbox.

    In order: `open_session`, wait until that is delivered, `prepare`, then `read` for each record, `execute` for its
    tuples and `tick` now and then, `flush` when the input is idle, `cleanup` at the end. `committable` may be committed
    at any time. See `TupleReader` for `read` and `read_columns`, `Executor` for `execute` and `execute_batch`.
    """

    _logger = get_logger("spout_sdk.bolt")

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        commits_effects = manifest.guarantee_of(component) == "exactly_once"
        self.inputs = InputOffsets(self._unanchored if commits_effects else None)
        super().__init__(topology, component, task, environment, self.inputs)
        self.outcomes = Outcomes(self, self.inputs)
        self.collector = OutputCollector(self, self.outcomes)
        reader = TupleReader(manifest, component, self.inputs, self.outcomes.reject)
        self.read = reader.read
        self.read_columns = reader.read_columns
        self._options = topology.options.get(component, BoltOptions())
        slowest_ms = max((spout.timeout_ms for spout in manifest.spouts), default=0)
        self._input_age = (manifest.max_tree_age_ms + slowest_ms) / 1000
        self._inbox = f"{tuples_topic(manifest.topology, component)}[{task}]"
        self.bolt = self._make()
        self.adapter = adapter_of(self.bolt, self, self.collector, self.outcomes, self._options)
        self.takes = self.adapter.takes
        if self.adapter.ends_inputs:
            self._input_age = math.inf
        self.inputs.folds = self.adapter.folds
        self.inputs.has_no_effects |= self.adapter.folds or self.adapter.emits_with_ack
        if not self.adapter.repeats_emits:
            for plan in self.plans.values():
                plan.leave_out_identities()
        self._executor = Executor(self, self.adapter, self.outcomes)
        self.execute = self._executor.execute
        self.execute_batch = self._executor.execute_batch

    def prepare(self) -> None:
        """Prepares the bolt; raises `ComponentError` if it raised."""
        self._add_hooks()
        self._call("prepare", self.adapter.prepare)
        self._tick_interval = self._options.tick_interval
        if self._tick_interval is None:
            self._tick_interval = self.adapter.tick_interval
            if self._tick_interval is not None:
                check_seconds(f"tick_interval of bolt {self._component!r}", self._tick_interval)
        self._tick_at = self._clock() + (self._tick_interval or 0.0)

    def tick(self, now: float) -> None:
        """Sends what has lingered, expires inputs, and executes a tick tuple if one is due."""
        self.outcomes.settle_written()
        super().tick(now)
        self.outcomes.retries.tick(now)
        if stale := self.inputs.expire(now, self._input_age):
            self.outcomes.forget_expired()
            self.context.count(EXPIRED_INPUTS, len(stale))
            by = f"{self._component}/{self._task}"
            text = (
                "%s: %d inputs of %s were neither acked nor failed for %.0f s, the first at offset %d. Their trees "
                "have failed, so they are settled and committed; ack or fail each input. Its roots: "
                "acker trace --tuple %s@%d"
            )
            self._logger.error(text, by, len(stale), self._inbox, self._input_age, stale[0], by, stale[0])
        if (interval := self._tick_interval) is not None and now >= self._tick_at - _MICROSECOND:
            # Counted from when it was due, so that ticks do not drift; missed ticks are skipped.
            self._tick_at += interval * (1 + (now - self._tick_at + _MICROSECOND) // interval)
            self._executor.tick()

    def execute_retries(self, now: float, until: float, *, others_wait: bool) -> int:
        """Executes tuples whose retries are due, or ends a pause that is over; returns how many calls it made.

        Args:
            now: by the clock of the task.
            until: when other tuples have a turn, about.
            others_wait: whether tuples wait that were not executed. After a pause one of these is tried first: what has
                failed before it may be what made the task pause.
        """
        failures, retries = self.adapter.failures, self.outcomes.retries
        if failures.tries_one:
            if retries.has_due(now) and (retries.has_deferred or not others_wait):
                return self._executor.execute_retries(until, 1)
            if not (others_wait or retries.has_due(now) or self.adapter.running_inputs):
                failures.end_pause()
            return 0
        if failures.pause is not None and not failures.is_paused:
            failures.end_pause()  # a call has returned
        if not retries.has_due(now) or self.adapter.is_busy:
            return 0
        return self._executor.execute_retries(until)

    def finish(self, until: float) -> None:
        """Executes what the task has put off, until a time, as it ends and its inputs are committed."""
        self.adapter.failures.finish()
        while self.outcomes.retries.has_due(self._clock()) and self._clock() < until:
            self._executor.execute_retries(until)

    def flush(self) -> None:
        """Sends all that is buffered, after what is settled by now."""
        self.outcomes.settle_written()
        super().flush()

    def cleanup(self) -> None:
        """Cleans the bolt up, which may still ack."""
        self._end("cleanup", self.adapter.cleanup)

    def note_done(self) -> None:
        """Sends all that is buffered, so that what is done by now can be committed when that is delivered."""
        self.flush()
        self.outbox.acks.when_delivered(partial(self.inputs.tuples_delivered, self.inputs.note_tuples()))

    def commit(self, room: int = LARGEST_METADATA, *, in_transaction: bool = False) -> Commit | None:
        """Returns the next commit: inputs whose acks are delivered, or all that is done. None before the first record.

        `room` is how many bytes its metadata may have.

        Of a bolt that is a fold over its inputs, a transaction commits the last offset that was read, whether its
        tuples were executed or not, and what windows have closed.
        """
        inputs = self.inputs
        done = inputs.settled() if in_transaction else inputs.delivered()
        if done is None:
            return None
        if in_transaction and inputs.folds:
            read = max(inputs.last_started, self.dead_letters.kept_to)
            return Commit(done.offset, read_metadata(read, self.adapter.progress), 0)
        return Commit.of(done, most=room)

    def resume(self, offset: int, metadata: str | None) -> None:
        """Continues from a committed offset and its metadata, before the first record is read.

        Raises `UnsupportedVersionError` if the metadata cannot be read.
        """
        if offset < 0:
            return  # nothing is committed
        try:
            texts = read_commit_metadata(offset, metadata) or {}
            self.inputs.continue_from(DoneSet.read(offset, texts.get(DONE, "")))
        except CommitError as error:
            raise UnsupportedVersionError(f"{self._inbox}: {error}") from error
        if self.inputs.folds and self.context.manifest.guarantee == "exactly_once" and (read := texts.get(READ)):
            kept_to, _, windows = read.partition(":")
            self.dead_letters.kept_to = int(kept_to)
            self.adapter.resume(windows, offset)

    @property
    def committable(self) -> int | None:
        """The first input offset that is not done; None before the first record."""
        return self.inputs.committable

    @property
    def is_full(self) -> bool:
        """Whether reading must pause, because too many inputs are open."""
        return self.inputs.open_tuples >= _MOST_OPEN

    @property
    def open_inputs(self) -> int:
        return self.inputs.open_count

    @property
    def retrying(self) -> int:
        """Tuples that wait to be executed again."""
        return self.outcomes.retries.waiting

    @property
    def pause(self) -> Pause | None:
        """The pause of the task, if its calls raise; for another thread, too."""
        return self.adapter.failures.pause

    @property
    def running(self) -> RunningCall | None:
        """The call of `execute` that runs now, for another thread."""
        return self._executor.running

    def _unanchored(self) -> int:
        """How many tuples were emitted that may be an effect of any open input, and records written."""
        return self.outbox.unanchored + self.outcomes.written + self.outcomes.untraced

    def is_open(self, offset: int) -> bool:
        """Whether the record at an offset was not read, or is not settled; for another thread."""
        return offset > self.inputs.last_started or self.inputs.is_open(offset)

    def oldest_input(self, now: float) -> tuple[float, str]:
        """The input that is open for longest: for how many seconds, to within one, and its position."""
        oldest = self.inputs.oldest_open
        return NO_INPUT if oldest is None else (self.inputs.open_seconds(now), f"{self._inbox} offset {oldest}")
