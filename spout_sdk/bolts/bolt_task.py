"""One task of a bolt, without I/O: records in, tuples and ack batches out."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.topology import Topology
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.bolts.executor import Executor
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.bolts.pause import Pause
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.bolts.tuple_reader import TupleReader
from spout_sdk.bolts.unread_record import UnreadRecord
from spout_sdk.chains.chain import Chain
from spout_sdk.chains.chained_task import EXPIRED_INPUTS
from spout_sdk.chains.head_task import HeadTask
from spout_sdk.chains.noted_outcomes import HeadOutcomes
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import UnsupportedVersionError
from spout_sdk.records import TaskEnvironment
from spout_sdk.statistics.stats import NO_INPUT
from tuple_tree.commit_metadata import DONE, LARGEST_METADATA, Commit, read_commit_metadata
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.names import tuples_topic

_MOST_OPEN: Final = 1_000_000  # tuples of open records of a task; they take some hundred megabytes


class BoltTask(HeadTask):
    """Executes the records of one partition of a bolt's inbox, and the tuples of its chained bolts.

    In order: `open_session`, wait until that is delivered, `prepare`, then `read` for each record, `execute` for its
    tuples and `tick` now and then, `flush` when the input is idle, `cleanup` at the end. `committable` may be committed
    at any time. See `TupleReader` for `read` and `read_columns`.
    """

    _logger = get_logger("spout_sdk.bolt")

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        commits_effects = manifest.guarantee_of(component) == "exactly_once"
        self.inputs = InputOffsets(self._unanchored if commits_effects else None)
        super().__init__(topology, component, task, environment, self.inputs)
        self.outcomes = (
            HeadOutcomes(self, self.inputs) if manifest.chained_to(component) else Outcomes(self, self.inputs)
        )
        self.unread = UnreadRecord(manifest, component, task, self.outcomes, environment.published, environment.clock)
        reader = TupleReader(manifest, component, self.inputs, self.unread.reject)
        self.read = reader.read
        self.read_columns = reader.read_columns
        self._inbox = f"{tuples_topic(manifest.topology, component)}[{task}]"
        self.bolt = self._make()
        self.executor = Executor(self.bolt, self, self.outcomes)
        self.adapter = self.executor.adapter
        self.takes = self.adapter.takes
        head = self.outcomes if isinstance(self.outcomes, HeadOutcomes) else None
        # Chained bolts may have sent or written something for an input before they have acked all of its tuples.
        self.inputs.has_no_effects |= self.adapter.emits_with_ack and head is None
        self.chain = Chain(self, self.takes, head)

    def prepare(self) -> None:
        """Prepares the chained bolts, then the bolt; raises `ComponentError` if one raised."""
        self.chain.prepare()
        self._add_hooks()
        self._call("prepare", self.executor.prepare)

    def execute(self, tuples: Iterator[Tuple], until: float) -> bool:
        """Executes tuples as `Executor.execute` does, then the chained bolts; returns whether no tuple is left."""
        return self.chain.run(until) and self.executor.execute(tuples, until) and self.chain.run(until)

    def execute_batch(self, batch: Sequence[Tuple] | ArrowInput) -> None:
        """Executes tuples as `Executor.execute_batch` does."""
        self.executor.execute_batch(batch)

    def tick(self, now: float) -> None:
        """Flushes data that has lingered, expires inputs, and executes a tick tuple if one is due."""
        self.outcomes.settle_written()
        self.unread.tick(now)
        self.chain.tick(now)
        super().tick(now)
        self.outcomes.retries.tick(now)
        if stale := self.inputs.expire(now, self.executor.input_age):
            self.outcomes.forget_expired()
            self.context.count(EXPIRED_INPUTS, len(stale))
            first = stale[0].offset
            text = (
                "%s: %d inputs of %s were neither acked nor failed for %.0f s, the first at offset %d. Their trees "
                "have failed, so they are settled and committed; ack or fail each input. Its roots: "
                "acker trace --tuple %s@%d"
            )
            what = (self.name, len(stale), self._inbox, self.executor.input_age, first, self.name, first)
            self._logger.error(text, *what)
        self.executor.tick(now)

    def execute_retries(self, now: float, until: float, *, others_wait: bool) -> int:
        """Executes due retries of the bolt and its chain, as `Executor.execute_retries` does."""
        return self.executor.execute_retries(now, until, others_wait=others_wait) + self.chain.execute_retries(
            now, until
        )

    def finish(self, until: float) -> None:
        """Executes due retries until `until`: the task ends, and the offsets of its inputs are committed."""
        self.executor.finish(until)
        self.chain.finish(until)

    def flush(self) -> None:
        """Settles tuples by the delivery reports so far, then sends everything that is buffered."""
        self.outcomes.settle_written()
        super().flush()

    def cleanup(self) -> None:
        """Cleans up the bolt, which may still ack, and then its chain."""
        try:
            self._end("cleanup", self.adapter.cleanup)
        finally:
            self.chain.cleanup()

    def note_done(self) -> None:
        """Sends everything that is buffered; when it is delivered, the inputs that are done by now can be committed."""
        self.flush()
        self.outbox.acks.when_delivered(partial(self.inputs.tuples_delivered, self.inputs.note_tuples()))

    def commit(self, room: int = LARGEST_METADATA, *, in_transaction: bool = False) -> Commit | None:
        """Returns the next commit: inputs whose acks are delivered, or in a transaction all inputs that are done.

        None before the first record. `room` is the largest size of its metadata, in bytes.
        """
        done = self.inputs.settled() if in_transaction else self.inputs.delivered()
        return None if done is None else Commit.of(done, most=room)

    def commits(self, room: int, *, in_transaction: bool) -> Mapping[Any, Commit]:
        """As of any task; none with `at_most_once`, which commits records before they are executed."""
        manifest = self.topology.manifest
        commit = self.commit(room, in_transaction=in_transaction) if in_transaction or manifest.acking else None
        return {} if commit is None else {(tuples_topic(manifest.topology, self._component), self._task): commit}

    @property
    def progress_key(self) -> tuple[int, int, int] | None:
        committable = self.committable
        return None if committable is None else (committable, self.inputs.last_started, self.open_inputs)

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

    @property
    def is_repeatable(self) -> bool:
        return self.inputs.is_repeatable and not self.chain.has_untracked

    @property
    def is_busy(self) -> bool:
        """Whether the bolt or its chain can take no more inputs now."""
        return self.adapter.is_busy or self.chain.is_busy

    @property
    def is_held(self) -> bool:
        """Whether nothing after the last record may be executed, because that cannot be read and is not decided yet."""
        return self.unread.held is not None

    @property
    def is_expected(self) -> bool:
        """Whether it takes no inputs because running inputs take long, but within their limit."""
        return self.adapter.is_expected or any(task.adapter.is_expected for task in self.chain)

    @property
    def is_paused(self) -> bool:
        """Whether the task executes nothing now, because calls raise, or a record waits for another version."""
        return self.is_held or self.adapter.failures.is_paused or self.chain.is_paused

    @property
    def busy_since(self) -> float | None:
        """Since when a long-running input leaves no room for other inputs; None if there is room."""
        times = (self.adapter.busy_since, *(task.adapter.busy_since for task in self.chain))
        return min((each for each in times if each is not None), default=None)

    @property
    def stop_timeout(self) -> float:
        """How many seconds a stop waits for inputs that the bolts have begun."""
        return max(self.adapter.stop_timeout, *(task.adapter.stop_timeout for task in self.chain), 0.0)

    @property
    def running_inputs(self) -> int:
        """How many inputs of the bolt and its chain are being executed between two calls."""
        return self.adapter.running_inputs + self.chain.running_inputs

    def wait(self, seconds: float) -> None:
        """Waits until a running input ends, at most `seconds`."""
        (self.adapter if self.adapter.is_busy or not self.chain.is_busy else self.chain).wait(seconds)

    def forget_waiting(self) -> None:
        """Drops waiting inputs: they stay open, and are read again."""
        self.adapter.forget_waiting()
        self.chain.forget_waiting()

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
        return self.outcomes.retries.waiting + sum(task.outcomes.retries.waiting for task in self.chain)

    @property
    def pause(self) -> Pause | None:
        """The pause of the task, or of a chained bolt whose calls raise; None without one. Any thread may read it."""
        return self.unread.pause or self.adapter.failures.pause or self.chain.pause

    @property
    def running(self) -> RunningCall | None:
        """The call of `execute` that runs now; any thread may read it."""
        return self.chain.running or self.executor.running

    def _unanchored(self) -> int:
        """How many emitted tuples and written records may be effects of any open input."""
        return self.outbox.unanchored + self.outcomes.unanchored + self.chain.unanchored

    def is_open(self, offset: int) -> bool:
        """Whether the record at an offset was not read, or is not settled; any thread may call it."""
        return offset > self.inputs.last_started or self.inputs.is_open(offset)

    def oldest_input(self, now: float) -> tuple[float, str]:
        """The input that is open for longest: for how many seconds, to within one, and its position."""
        oldest = self.inputs.oldest_open
        return NO_INPUT if oldest is None else (self.inputs.open_seconds(now), f"{self._inbox} offset {oldest}")
