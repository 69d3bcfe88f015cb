"""One task of a bolt, without I/O: records in, tuples and ack batches out."""

from typing import Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.components import AnyBolt, ArrowBolt, BasicBolt, BatchBolt, Bolt
from spout_sdk.api.topology import BoltOptions, Topology
from spout_sdk.api.tuples import tick_tuple
from spout_sdk.arguments import check_seconds
from spout_sdk.bolts.arrow_collector import check_packed
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.executor import ExecuteFailures, Executor
from spout_sdk.bolts.held_failures import reset_seconds
from spout_sdk.bolts.holding_bolt import HoldingBolt
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.bolts.tuple_reader import TupleReader
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.task import Task
from spout_sdk.errors import TopologyError
from spout_sdk.kafka.kafka_reader import commit_metadata, read_commit_metadata
from spout_sdk.records import TaskEnvironment
from spout_sdk.statistics.stats import NO_INPUT
from tuple_tree.names import tuples_topic

# The counter of inputs that were neither acked nor failed in time, and so were settled.
EXPIRED_INPUTS: Final = "expired inputs"
_READ: Final = "read"
_MICROSECOND: Final = 1e-6  # the sum of tick intervals is rounded
# Records and tuples of a task that are open, or done behind an open one; they take some hundred megabytes.
_MOST_UNCOMMITTED: Final = 1_000_000


def progress_metadata(read: int, windows: str) -> str:
    """The metadata of a commit of a bolt that holds inputs: the last offset that was read, and the state of windows."""
    return commit_metadata(_READ, f"{read}:{windows}")


class BoltTask(Task):
    """Executes the records of one partition of a bolt's inbox.

    In order: `open_session`, wait until that is delivered, `prepare`, then `read` for each record, `execute` for its
    tuples and `tick` now and then, `flush` when the input is idle, `cleanup` at the end. `committable` may be committed
    at any time. See `TupleReader` for `read` and `read_columns`, `Executor` for `execute` and `execute_batch`.
    """

    _logger = get_logger("spout_sdk.bolt")
    collector: OutputCollector

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        commits_effects = manifest.guarantee == "exactly_once"
        self.inputs = InputOffsets((lambda: self.collector.sent) if commits_effects else None)
        super().__init__(topology, component, task, environment, self.inputs)
        self.collector = OutputCollector(self)
        reader = TupleReader(manifest, component, self.inputs, self.collector.reject)
        self.read = reader.read
        self.read_columns = reader.read_columns
        self._options = topology.options.get(component, BoltOptions())
        failures = ExecuteFailures(self.collector, self._options)
        slowest_ms = max((spout.timeout_ms for spout in manifest.spouts), default=0)
        self._input_age = (manifest.max_tree_age_ms + slowest_ms) / 1000
        self._reset_every = reset_seconds(manifest)
        self._reset_at = self._clock() + self._reset_every
        self._inbox = f"{tuples_topic(manifest.topology, component)}[{task}]"
        bolt = self._make()
        if not isinstance(bolt, AnyBolt):
            raise TopologyError(f"component {component!r} makes a {type(bolt).__name__}, which is no bolt: derive it")
        self.bolt: AnyBolt = bolt
        self.takes_batches, self.takes_columns = isinstance(bolt, BatchBolt), isinstance(bolt, ArrowBolt)
        self._holding = bolt if isinstance(bolt, HoldingBolt) else None
        if self._holding is not None:
            self.inputs.folds = True
            self._holding._failures = ExecuteFailures(self.collector, self._options)
        if self.takes_columns:
            declared = manifest.component(component)
            for subscription in getattr(declared, "subscriptions", ()):
                check_packed(subscription.source, manifest.stream(subscription.source, subscription.stream))
            for stream in declared.streams:
                check_packed(component, stream)
        self._executor = Executor(bolt, self.collector, failures)
        self.execute = self._executor.execute
        self.execute_batch = self._executor.execute_batch

    def prepare(self) -> None:
        """Prepares the bolt; raises `ComponentError` if it raised."""
        self._add_hooks()
        if isinstance(self.bolt, BasicBolt | ArrowBolt):
            self._call("prepare", self.bolt.prepare, self.context)
        else:
            self._call("prepare", self.bolt.prepare, self.context, self.collector)
        self._tick_interval = self._options.tick_interval
        if self._tick_interval is None and isinstance(self.bolt, Bolt | BasicBolt):
            self._tick_interval = self.bolt.tick_interval
            if self._tick_interval is not None:
                check_seconds(f"tick_interval of bolt {self._component!r}", self._tick_interval)
        self._tick_at = self._clock() + (self._tick_interval or 0.0)

    def tick(self, now: float) -> None:
        """Sends what has lingered, expires inputs, and executes a tick tuple if one is due."""
        self.collector.settle_due()
        super().tick(now)
        self._keep_alive(now)
        if stale := self.inputs.expire(now, self._input_age):
            self.collector.held.settle(stale)
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
            ticked = tick_tuple()
            self._executor.call(ticked, (ticked,))

    def flush(self) -> None:
        """Sends all that is buffered, after what is settled by now."""
        self.collector.settle_due()
        super().flush()

    def _keep_alive(self, now: float) -> None:
        """Restarts the clocks of the trees of failures that wait, or their spouts would see a timeout instead."""
        if now >= self._reset_at:
            self._reset_at = now + self._reset_every
            for tuple_ in self.collector.held:
                for root in tuple_.edges:
                    self.acks.reset(root)

    def cleanup(self) -> None:
        """Cleans the bolt up, which may still ack."""
        self._end("cleanup", self.bolt.cleanup)

    @property
    def progress(self) -> str:
        """Metadata committed beside the offset, for `resume`; empty unless the bolt is a fold over its inputs.

        The last offset that was read, whether its tuples were executed or not, and what windows have closed.
        """
        if self._holding is None:
            return ""
        read = max(self.inputs.last_started, self.collector.dead_letters.kept_to)
        return progress_metadata(read, self._holding._progress)

    def resume(self, offset: int, metadata: str | None) -> None:
        """Continues from a committed offset and its metadata, before the first record is read."""
        if self._holding is not None and (progress := read_commit_metadata(_READ, offset, metadata)) is not None:
            read, _, windows = progress.partition(":")
            self.collector.dead_letters.kept_to = int(read)
            self._holding._resume(windows, offset)

    @property
    def committable(self) -> int | None:
        """The input offset that may be committed; None before the first record."""
        return self.inputs.committable

    @property
    def is_full(self) -> bool:
        """Whether reading must pause, because too many inputs are open or done behind an open one."""
        return self.inputs.weight >= _MOST_UNCOMMITTED

    @property
    def is_busy(self) -> bool:
        """Whether it can execute no more now; `execute` takes nothing then."""
        return self._holding is not None and self._holding._is_busy

    @property
    def running_inputs(self) -> int:
        """How many inputs are being executed between two calls."""
        return 0 if self._holding is None else self._holding._running

    def wait(self, seconds: float) -> None:
        """Waits until a running input ends, `seconds` at most."""
        if self._holding is not None:
            self._holding._wait(seconds)

    @property
    def open_inputs(self) -> int:
        return self.inputs.open_count

    @property
    def running(self) -> RunningCall | None:
        """The call of `execute` that runs now, for another thread."""
        return self._executor.running

    def is_open(self, offset: int) -> bool:
        """Whether the record at an offset was not read, or is not settled; for another thread."""
        return offset > self.inputs.last_started or self.inputs.is_open(offset)

    def oldest_input(self, now: float) -> tuple[float, str]:
        """The input that is open for longest: for how many seconds, to within one, and its position."""
        oldest = self.inputs.oldest_open
        return NO_INPUT if oldest is None else (self.inputs.open_seconds(now), f"{self._inbox} offset {oldest}")
