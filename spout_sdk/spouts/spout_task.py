"""One task of a spout, without I/O: notices in, tuples and ack batches out."""

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.components import Failure, Spout
from spout_sdk.api.topology import Topology
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.task import Task
from spout_sdk.errors import BrokerError, ComponentError, TopologyError, UnsupportedVersionError
from spout_sdk.kafka_spout.source_task import SourceTask
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.records import Record, TaskEnvironment
from spout_sdk.spouts.pending import Pending, PendingLimit
from spout_sdk.spouts.spout_collector import SpoutCollector
from tuple_tree.errors import VersionError, WireError
from tuple_tree.manifest import SpoutManifest
from tuple_tree.messages import FailReason, SpoutAddress, decode_notice_batch
from tuple_tree.names import notices_topic

# How many message timeouts beyond the largest tree age a tree is kept before it counts as lost.
LOST_MARGIN_TIMEOUTS: Final = 1


class SpoutTask(Task):
    """Calls a spout for tuples, and with the outcomes of their trees.

    In order: `open_session`, wait until that is delivered, `open`, then `emit` and `tick` again and again, `handle` for
    each record of the notices topic, `flush` when there is nothing to emit, `close` at the end.
    """

    _logger = get_logger("spout_sdk.spout")

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        declared = manifest.component(component)
        if not isinstance(declared, SpoutManifest):
            raise TopologyError(f"component {component!r} is no spout: run it as a bolt")
        address = SpoutAddress(notices_topic(manifest.topology, component), task, declared.timeout_ms)
        super().__init__(topology, component, task, environment, InputOffsets(), address)
        now = self._clock()
        self._limit = PendingLimit(declared.max_pending, (declared.timeout_ms + manifest.tick_ms) / 1000, now)
        lost_after_ms = manifest.max_tree_age_ms + LOST_MARGIN_TIMEOUTS * declared.timeout_ms
        self._pending = Pending(lost_after_ms / 1000, now, self._lost)
        self._throttled_since: float | None = None
        self.collector = SpoutCollector(self, self._pending)
        spout = self._make()
        if not isinstance(spout, Spout):
            raise TopologyError(f"component {component!r} makes a {type(spout).__name__}, which is no Spout: derive it")
        self.spout = spout
        self._source: SourceTask | None = None  # of a `KafkaSpout`, once it is open
        self._acks_at_once = isinstance(spout, KafkaSpout) and type(spout).ack is KafkaSpout.ack

    def open(self) -> None:
        """Opens the spout; raises `ComponentError` if it raised."""
        self._add_hooks()
        if isinstance(self.spout, KafkaSpout):
            self._source = SourceTask(self.spout.settings, self, self.collector)
            self.spout.attach(self._source)
        self._call("open", self.spout.open, self.context, self.collector)
        self._ack_untracked()

    def emit(self, calls: int) -> bool:
        """Calls `next_tuple` until it emits nothing, too much is pending, or it was called so often.

        Returns whether anything was emitted; raises `ComponentError` if the spout raised.
        """
        counters, pending = self._counters, self._pending
        next_tuple, untracked = self.spout.next_tuple, self.collector.untracked
        limit = self._limit.value
        before = emitted = counters.emitted
        self._count_throttled()
        try:
            if self._source is not None and len(pending) < limit:
                self._source.emit(min(calls, limit - len(pending)))
                calls = 0
                self._ack_untracked()
                emitted = counters.emitted
            for _ in range(calls):
                if len(pending) >= limit:
                    self._throttled_since = self._clock()
                    break
                next_tuple()
                if untracked:
                    self._ack_untracked()
                if counters.emitted == emitted:
                    break
                emitted = counters.emitted
        except (ComponentError, BrokerError):
            raise
        except Exception as error:
            raise self._broken("next_tuple", error) from error
        return emitted != before

    def handle(self, record: Record) -> None:
        """Calls the spout with the outcomes in a record of the notices topic; those of unknown roots are ignored.

        Raises `ComponentError` if the spout raised, `UnsupportedVersionError` if the record cannot be read.
        """
        try:
            batch = decode_notice_batch(record.value())
        except VersionError as error:
            raise UnsupportedVersionError(
                f"{record.topic()}[{record.partition()}] offset {record.offset()} cannot be read: {error.detail}"
            ) from error
        except WireError as error:
            # Its trees fail as lost in the end.
            what = (self._component, self._task, record.offset(), error)
            self._logger.warning("%s/%d: unreadable notice at offset %s: %s", *what)
            self.dead_letters.send_record(record, error, lambda: None)
            return
        pop, counters = self._pending.pop, self._counters
        trees = [tree for tree in map(pop, batch.acked_roots.tolist()) if tree is not None]
        counters.ignored_notices += len(batch.acked_roots) - len(trees)
        counters.acked += len(trees)
        self._call("ack", self._acked, trees)
        self._limit.acked(len(trees))
        reasons = zip(batch.failed_roots.tolist(), batch.fail_reasons.tolist(), batch.fail_messages, strict=True)
        for root, reason, message in reasons:
            if (tree := pop(root)) is None:
                counters.ignored_notices += 1
            else:
                self._failed(tree[0], Failure(FailReason(reason), message))
        self._ack_untracked()

    def _acked(self, trees: Sequence[tuple[Any, float]]) -> None:
        """Acks trees, each with its message id and the time of its emit."""
        now = self._clock()
        for emitted_at, count in Counter(map(itemgetter(1), trees)).items():
            self._counters.complete_latency.record(now - emitted_at, count)
        if self._source is not None and self._acks_at_once and not self._hooks:
            self._source.acked([message_id for message_id, _ in trees])
            return
        for message_id, emitted_at in trees:
            if self._hooks:
                self._call_hooks("spout_ack", message_id, now - emitted_at)
            self.spout.ack(message_id)

    def tick(self, now: float) -> None:
        """Sends what has lingered, and fails as lost the trees that had no outcome for too long."""
        super().tick(now)
        self._pending.tick(now)
        if self._limit.tick(now, len(self._pending), self._pending.begun):
            text = (
                "%s/%d: bolts hold most of the %d trees that may be open for longer than a message timeout: a window "
                "that needs more tuples never closes; raise max_spout_pending, or make the window smaller"
            )
            self._logger.warning(text, self._component, self._task, self._limit.most)
        if self._source is not None:
            self._call("tick", self._source.tick, now)

    def release(self) -> None:
        """Commits for a `KafkaSpout`; before `close`, while the group still accepts it."""
        if self._source is not None:
            self._source.release()

    def close(self) -> None:
        self._count_throttled()
        self._end("close", self.spout.close)

    @property
    def pending_messages(self) -> list[Any]:
        """The message ids of the open trees, in the order in which they began."""
        return [message_id for message_id, _ in self._pending.trees]

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def is_replayed(self) -> bool:
        """Whether a message is emitted again that was not acked; otherwise its source forgets what was emitted."""
        return self.context.manifest.acking if self._source is None else self._source.tracked

    def is_due(self, now: float) -> bool:
        """Whether a `KafkaSpout` has a message to emit now, and may emit it."""
        return self._source is not None and not self.is_throttled and self._source.is_due(now)

    @property
    def is_throttled(self) -> bool:
        """Whether `max_spout_pending` trees are open, or fewer while trees time out."""
        return len(self._pending) >= self._limit.value

    def _lost(self, message_id: Any) -> None:
        self._failed(message_id, Failure(FailReason.LOST))

    def _failed(self, message_id: Any, failure: Failure) -> None:
        self._counters.count_failed(failure.reason)
        # A tree that is too old has made progress within each timeout: it was in no long queue.
        if failure.reason in (FailReason.TIMEOUT, FailReason.LOST) and self._limit.timed_out(len(self._pending)):
            text = (
                "%s/%d: trees time out, so it keeps %d open for now instead of max_spout_pending, %d: the topology "
                "completes no more within a message timeout"
            )
            self._logger.warning(text, self._component, self._task, self._limit.value, self._limit.most)
        self._call_hooks("spout_fail", message_id, failure)
        self._call("fail", self.spout.fail, message_id, failure)

    def _ack_untracked(self) -> None:
        # What `ack` emits in turn is acked after the next call.
        done, self.collector.untracked[:] = self.collector.untracked[:], []
        self._counters.acked += len(done)
        for message_id in done:
            if self._hooks:
                self._call_hooks("spout_ack", message_id, 0.0)
            self._call("ack", self.spout.ack, message_id)

    def _call_hooks(self, method: str, *arguments: Any) -> None:
        self.run_hooks(lambda hook: getattr(hook, method)(*arguments))

    def _count_throttled(self) -> None:
        if self._throttled_since is not None:
            self._counters.throttled_seconds += self._clock() - self._throttled_since
            self._throttled_since = None
