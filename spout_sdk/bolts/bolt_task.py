"""One task of a bolt, without I/O: records in, tuples and ack batches out."""

import logging
from typing import Final, NamedTuple

from spout_sdk.api.components import AnyBolt, ArrowBolt, BasicBolt, BatchBolt, Bolt
from spout_sdk.api.tuples import InputPack, tick_tuple
from spout_sdk.arguments import check_seconds
from spout_sdk.bolts.arrow_collector import ColumnOutput, check_packed
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.executor import ExecuteFailures, Executor
from spout_sdk.bolts.tuple_reader import TupleReader
from spout_sdk.emitting.dead_letters import BoltDeadLetters
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.task import Task
from spout_sdk.errors import TopologyError
from spout_sdk.kafka.commit_metadata import commit_metadata, read_commit_metadata
from spout_sdk.statistics.stats import NO_INPUT
from spout_sdk.topologies.topology import BoltOptions, Topology
from tuple_tree.names import tuples_topic

# The counter of inputs that were neither acked nor failed in time, and so were settled.
EXPIRED_INPUTS: Final = "expired inputs"
_READ: Final = "read"
# Records and tuples of a task that are open, or done behind an open one; they take some hundred megabytes.
_MOST_UNCOMMITTED: Final = 1_000_000


class BoltProgress(NamedTuple):
    """What is committed beside the offset of a bolt whose inputs stay open for longer than a transaction."""

    read: int  # the last offset that was read, whether its tuples were executed or not
    windows: str = ""  # of `WindowFold.progress`; empty for other bolts

    @property
    def metadata(self) -> str:
        return commit_metadata(_READ, f"{self.read}:{self.windows}")

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> "BoltProgress | None":
        """None where another program has committed; raises `UnsupportedVersionError` as `read_commit_metadata`."""
        text = read_commit_metadata(_READ, offset, metadata)
        if text is None:
            return None
        read, _, windows = text.partition(":")
        return cls(int(read), windows)


class BoltTask(Task):
    """Executes the records of one partition of a bolt's inbox.

    In order: `open_session`, wait until that is delivered, `prepare`, then `read` for each record, `execute` for its
    tuples and `tick` now and then, `flush` when the input is idle, `cleanup` at the end. `committable` may be committed
    at any time. See `TupleReader` for `read` and `read_columns`, `Executor` for `execute` and the like.
    """

    _logger = logging.getLogger("spout_sdk.bolt")
    collector: OutputCollector
    _dead_letters: BoltDeadLetters

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        commits_effects = manifest.guarantee == "exactly_once"
        self.inputs = InputOffsets((lambda: self.collector.packer.emitted) if commits_effects else None)
        super().__init__(topology, component, task, environment, self.inputs)

        def done_at_once(pack: InputPack) -> None:
            self.inputs.settle((pack,))

        done = done_at_once if self._acks is None else self._acks.cover
        self._dead_letters = BoltDeadLetters(self._scope, done)
        reader = TupleReader(manifest, component, self.inputs, self._dead_letters.reject)
        self.read = reader.read
        self.read_columns = reader.read_columns
        self.collector = OutputCollector(self._scope, done)
        self._options = topology.options.get(component, BoltOptions())
        failures = ExecuteFailures(self.collector, self._options, self._dead_letters)
        slowest_ms = max((spout.timeout_ms for spout in manifest.spouts), default=0)
        self._input_age = (manifest.max_tree_age_ms + slowest_ms) / 1000
        self._inbox = f"{tuples_topic(manifest.topology, component)}[{task}]"
        bolt = self._make(topology)
        if not isinstance(bolt, AnyBolt):
            raise TopologyError(f"component {component!r} makes a {type(bolt).__name__}, which is no bolt: derive it")
        self.bolt: AnyBolt = bolt
        self._holding = bolt if isinstance(bolt, Bolt) and bolt._holds_inputs else None
        if self._holding is not None:
            self.inputs.folds = True
            self._holding._failures = ExecuteFailures(self.collector, self._options, self._dead_letters)
        columns = None
        if isinstance(bolt, ArrowBolt):
            for subscription in getattr(manifest.component(component), "subscriptions", ()):
                check_packed(subscription.source, manifest.stream(subscription.source, subscription.stream))
            self.columns = columns = ColumnOutput(self.collector)
        self._executor = Executor(bolt, self.collector, columns, failures)
        self.execute = self._executor.execute
        self.execute_batch = self._executor.execute_batch
        self.execute_columns = self._executor.execute_columns

    def prepare(self) -> None:
        """Prepares the bolt; raises `ComponentError` if it raised."""
        try:
            for make in self._hook_factories:
                self._context.add_hook(make())
            if isinstance(self.bolt, BasicBolt | ArrowBolt):
                self.bolt.prepare(self._context)
            else:
                self.bolt.prepare(self._context, self.collector)
        except Exception as error:
            raise self._broken("prepare", error) from error
        self._executor.always_timed = bool(self._hooks)
        self._tick_interval = self._options.tick_interval
        if self._tick_interval is None and isinstance(self.bolt, Bolt | BasicBolt):
            self._tick_interval = self.bolt.tick_interval
            if self._tick_interval is not None:
                check_seconds(f"tick_interval of bolt {self._component!r}", self._tick_interval)
        self._tick_at = self._clock() + (self._tick_interval or 0.0)

    @property
    def takes_batches(self) -> bool:
        return isinstance(self.bolt, BatchBolt)

    @property
    def takes_columns(self) -> bool:
        return isinstance(self.bolt, ArrowBolt)

    def tick(self, now: float) -> None:
        """Sends what has lingered, expires inputs, and executes a tick tuple if one is due."""
        super().tick(now)
        if stale := self.inputs.expire(now, self._input_age):
            self._context.count(EXPIRED_INPUTS, len(stale))
            by = f"{self._component}/{self._task}"
            text = (
                "%s: %d inputs of %s were neither acked nor failed for %.0f s, the first at offset %d. Their trees "
                "have failed, so they are settled and committed; ack or fail each input. Its roots: "
                "acker trace --tuple %s@%d"
            )
            self._logger.error(text, by, len(stale), self._inbox, self._input_age, stale[0], by, stale[0])
        if self._tick_interval is not None and now >= self._tick_at:
            # Counted from now: missed ticks are skipped.
            self._tick_at = now + self._tick_interval
            ticked = tick_tuple()
            self._executor.call(ticked, (ticked,))

    def cleanup(self) -> None:
        """Cleans the bolt up, which may still ack."""
        self._end("cleanup", self.bolt.cleanup)

    @property
    def progress(self) -> str:
        """What is committed beside the offset, for `resume`; empty unless the bolt is a fold over its inputs."""
        if self._holding is None:
            return ""
        read = max(self.inputs.last_started, self._dead_letters.kept_to)
        return BoltProgress(read, self._holding._window_progress).metadata

    def resume(self, offset: int, metadata: str | None) -> None:
        """Goes on from a committed offset and its metadata, before the first record is read."""
        if self._holding is not None and (progress := BoltProgress.of(offset, metadata)):
            self._dead_letters.kept_to = progress.read
            self._holding._resume_windows(progress.windows, offset)

    @property
    def committable(self) -> int | None:
        """The input offset that may be committed; None before the first record."""
        return self.inputs.committable

    @property
    def is_full(self) -> bool:
        """Whether no more should be read, because so many inputs are open or done behind an open one."""
        return self.inputs.weight >= _MOST_UNCOMMITTED

    @property
    def open_inputs(self) -> int:
        return self.inputs.open_count

    def oldest_input(self, now: float) -> tuple[float, str]:
        """The input that is open for longest: for how many seconds, to within one, and its position."""
        oldest = self.inputs.oldest_open
        return NO_INPUT if oldest is None else (self.inputs.open_seconds(now), f"{self._inbox} offset {oldest}")
