"""One task of a spout, without I/O: notices in, tuples and ack batches out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.components import AnySpout
from spout_sdk.api.topology import Topology
from spout_sdk.bolts.head_task import HeadTask
from spout_sdk.emitting.chained_trees import ChainedTrees
from spout_sdk.emitting.emit_plan import EmitPlan
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.task import Task
from spout_sdk.errors import BrokerError, ComponentError, EmitError, TopologyError, UnsupportedVersionError
from spout_sdk.records import Record, TaskEnvironment
from spout_sdk.spouts.pending import Pending, PendingLimit, Tree
from spout_sdk.spouts.source import SpoutSource
from spout_sdk.spouts.spout import SpoutCollector
from spout_sdk.spouts.tree_batches import TreeBatches
from spout_sdk.statistics.stats import NOT_FAILED, MostFailed
from tuple_tree.commit_metadata import Commit
from tuple_tree.components import SpoutManifest
from tuple_tree.control import ControlState
from tuple_tree.errors import ENDS_PROCESS, VersionError, WireError
from tuple_tree.messages import FailReason, Failure, SpoutAddress, decode_notice_batch, failed_by_of
from tuple_tree.names import notices_topic
from tuple_tree.process_stats import LARGEST_ERROR

# How many message timeouts beyond the largest tree age a tree is kept before it counts as lost.
LOST_MARGIN_TIMEOUTS: Final = 1
RUN_SECONDS: Final = 0.04  # how long chained bolts of all tasks execute before the spout's process does other work


class SpoutTask(HeadTask, Task):
    """Calls a spout for tuples and with the outcomes of their trees, and executes the tuples of its chained bolts.

    In order: `open_session`, wait until that is delivered, `open`, then `emit` and `tick` again and again, `handle` for
    each record of the notices topic, `flush` when there is nothing to emit, `close` at the end.

    Attributes:
        open_trees: trees without an outcome.
        batches: the input batches of its trees.
        untracked: message ids without a tree, which are acked after the call of the spout that has emitted them.
        control: the requested state of the topology; None while it is not known.
        run_seconds: how long its chained bolts execute at a time: its share of `RUN_SECONDS`.
    """

    _logger = get_logger("spout_sdk.spout")

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        declared = manifest.component(component)
        if not isinstance(declared, SpoutManifest):
            raise TopologyError(f"component {component!r} is not a spout: run it as a bolt")
        address = SpoutAddress(notices_topic(manifest.topology, component), task, declared.timeout_ms)
        self.inputs = InputOffsets()
        HeadTask.__init__(self, topology, component, task, environment, self.inputs, address)
        Task.__init__(self, topology, component, task, environment)
        now = self._clock()
        self._limit = PendingLimit(declared.max_pending, (declared.timeout_ms + manifest.tick_ms) / 1000, now)
        lost_after_ms = manifest.max_tree_age_ms + LOST_MARGIN_TIMEOUTS * declared.timeout_ms
        self.open_trees = Pending(lost_after_ms / 1000, now, self._lost)
        self._throttled_since: float | None = None
        self._is_closing = False
        self.untracked: list[Any] = []
        self.control: ControlState | None = "running"
        self.run_seconds = RUN_SECONDS
        self.batches = TreeBatches(self.outbox, is_identified=manifest.is_identified(component))
        self.collector = SpoutCollector(self, self.open_trees, self.untracked, self.batches)
        self.spout = self._make()
        if not isinstance(self.spout, AnySpout) or self.spout.needs.called_by is None:
            raise TopologyError(
                f"component {component!r} makes a {type(self.spout).__name__}, which is not a Spout: derive it"
            )
        self.source: SpoutSource = self.spout.needs.called_by(self.spout, self)
        self._add_chained(self.plans)
        if self.steps and manifest.acking:
            self.outbox.trees = ChainedTrees(
                *(self.outbox.acked, self.next_id, self._clock),
                is_transactional=environment.is_transactional,
            )
        self._ended_trees = 0  # in the chain, with transactions
        self._uncommitted: list[Tree] = []  # of the open transaction

    @property
    def _members(self) -> Sequence[Task]:
        return [self, *self.steps]

    def open(self) -> None:
        """Prepares the chained bolts, then opens the spout; raises `ComponentError` if one raised."""
        self.prepare()
        self._add_hooks()
        self._call("open", self.source.open)
        self.ack_untracked()

    def emit(self, calls: int) -> bool:
        """Calls the spout until it emits nothing, too much is pending, or it was called `calls` times.

        The chained bolts execute the emitted tuples. Returns whether the spout emitted or a chained bolt executed
        tuples; raises `ComponentError` if the spout or a chained bolt raised.
        """
        if self.steps:
            until = self._clock() + self.run_seconds
            if not self.run(until):
                return True
            if self.is_held_up:
                return False
        counters, trees, limit = self._counters, self.open_trees, self._limit.value
        before = counters.emitted
        self._count_throttled()
        try:
            if len(trees) < limit:
                if self.control == "running":
                    self.source.emit(calls, limit)
                elif self.control == "draining":
                    self.source.emit_failed(calls, limit)
        except (ComponentError, BrokerError, *ENDS_PROCESS):
            raise
        except BaseException as error:
            raise self._broken("next_tuple", error) from error
        if len(trees) >= limit:
            self._throttled_since = self._clock()
        if counters.emitted == before:
            return False
        if self.steps:
            self.run(until)
        return True

    def handle(self, record: Record) -> None:
        """Calls the spout with the outcomes in a record of the notices topic; ignores unknown roots.

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
        pop, counters = self.open_trees.pop, self._counters
        trees = self.open_trees.pop_all(batch.acked_roots.tolist())
        counters.ignored_notices += len(batch.acked_roots) - len(trees)
        self._ack(trees)
        self.source.done(_message_ids(trees))
        for root, message, by in zip(batch.marked_roots.tolist(), batch.mark_messages, batch.marked_by, strict=True):
            if (tree := pop(root)) is None:
                counters.ignored_notices += 1
            else:
                self._marked(tree, by, message)
        if not len(batch.failed_roots):
            return
        failed_by = failed_by_of(dict(record.headers() or ()), len(batch.failed_roots))
        columns = batch.failed_roots.tolist(), batch.fail_reasons.tolist(), batch.fail_messages, failed_by
        for root, reason, message, by in zip(*columns, strict=True):
            if (tree := pop(root)) is None:
                counters.ignored_notices += 1
            else:
                component, text = self.context.manifest.failed_in(by, message)
                self._failed(tree[0], Failure(FailReason(reason), text, component))

    def _marked(self, tree: Tree, by: str, message: str) -> None:
        """Ends a message whose tree was fully processed, with a tuple that became a dead letter in the task `by`."""
        self._counters.dead_lettered += 1
        self._ack([tree])
        component, text = self.context.manifest.failed_in(by, message)
        self.source.done([tree[0]], Failure(FailReason.FAILED, text, component))

    def _ack(self, trees: Sequence[Tree]) -> None:
        """Calls the spout's `ack` for trees that were fully processed."""
        self._counters.acked += len(trees)
        self._limit.acked(len(trees))
        now = self._clock()
        for emitted_at, count in Counter(map(itemgetter(1), trees)).items():
            self._counters.complete_latency.record(now - emitted_at, count)
        for message_id, emitted_at in trees if self._hooks else ():
            self._call_hooks("spout_ack", message_id, now - emitted_at)
        self._call("ack", self.source.acked, _message_ids(trees))

    def tick(self, now: float) -> None:
        """Flushes data that has lingered, and fails trees as lost that had no outcome for too long."""
        super().tick(now)
        if self.steps:
            self._tick_steps(now)
        self.open_trees.tick(now)
        if self._limit.tick(now, len(self.open_trees), self.open_trees.begun):
            text = (
                "%s/%d: bolts hold most of the %d trees that may be open for longer than a message timeout: a bolt "
                "that waits for more tuples does not get them; raise max_spout_pending, or let it wait for fewer"
            )
            self._logger.warning(text, self._component, self._task, self._limit.most)
        self._call("tick", self.source.tick, now)

    @property
    def _keeps_waiting(self) -> bool:
        """While tuples wait in this process for a bolt, a timeout would not mean that they are lost."""
        return self.is_held_up or self.pause is not None

    def _tick_steps(self, now: float) -> None:
        self.execute_retries(now, now + self.run_seconds)

    def flush(self) -> None:
        """Sends everything that is buffered, and acks the messages whose trees have ended in the chain."""
        super().flush()
        if (trees := self.outbox.trees) is not None and len(ended := trees.take_ended()):
            found = self.open_trees.pop_all(ended.tolist())
            if self.environment.is_transactional:
                self._uncommitted += found
                self._ended_trees += len(found)
            else:
                self._ack(found)
            self.source.done(_message_ids(found))

    @property
    def progress_key(self) -> Any:
        return self.source.messages.progress_key, self._ended_trees

    def commits(self, room: int, *, in_transaction: bool) -> Mapping[Any, Commit]:  # noqa: ARG002 - as bolts
        return self.source.messages.commits(room)

    def committed(self) -> None:
        """Acks the messages whose trees have ended in the transaction that was committed."""
        self.source.messages.committed()
        ended, self._uncommitted = self._uncommitted, []
        self._ack(ended)

    @property
    def busy_since(self) -> float | None:
        """None: its ticks reset the timeouts of trees that wait for chained bolts."""
        return None

    def release(self) -> None:
        self.source.messages.trim()

    def close(self) -> None:
        """Closes the spout, after the last commit and the calls of `ack` that follow from it."""
        self._count_throttled()
        self._is_closing = True
        self.plans.clear()  # so that an emit calls `plan`
        self._end("close", self.source.close)

    def plan(self, stream: str) -> EmitPlan:
        if self._is_closing:
            raise EmitError(self._component, stream, (), "the spout is closing, and what it emits is not sent any more")
        return super().plan(stream)

    @property
    def pending_messages(self) -> list[Any]:
        """The message ids of the open trees, in the order in which they began."""
        return [message_id for message_id, _ in self.open_trees.trees]

    @property
    def pending(self) -> int:
        return len(self.open_trees)

    def is_due(self, now: float) -> bool:
        """Whether it is known that there is a message to emit now, and it may be emitted."""
        return self.control == "running" and not self.is_throttled and self.source.is_due(now)

    @property
    def retrying(self) -> int:
        """Messages that wait to be emitted again."""
        # Messages that have ended, and whose outcomes are not delivered yet, are neither open trees nor emitted again.
        messages = self.source.messages
        return max(0, messages.open_count - len(self.open_trees) - len(messages.undelivered))

    @property
    def most_failed(self) -> MostFailed:
        """The message that has failed most often; any thread may read it."""
        messages = self.source.messages
        if (found := messages.most_failed) is None or (last := found[1].last) is None:
            return NOT_FAILED
        partition, offset = messages.at(found[0])
        why = (last.message or last.reason.word)[:LARGEST_ERROR]
        return MostFailed(f"{partition.at} offset {offset}", found[1].failures, why, last.component)

    @property
    def is_throttled(self) -> bool:
        """Whether `max_spout_pending` trees are open, or fewer while trees time out."""
        return len(self.open_trees) >= self._limit.value

    def _lost(self, message_id: Any) -> None:
        self._failed(message_id, Failure(FailReason.LOST))

    def _failed(self, message_id: Any, failure: Failure) -> None:
        self._counters.count_failed(failure.reason)
        # A tree that is too old has made progress within each timeout: it was in no long queue.
        if failure.reason in (FailReason.TIMEOUT, FailReason.LOST) and self._limit.timed_out(len(self.open_trees)):
            text = (
                "%s/%d: trees time out, so it keeps %d open for now instead of max_spout_pending, %d: the topology "
                "completes no more within a message timeout"
            )
            self._logger.warning(text, self._component, self._task, self._limit.value, self._limit.most)
        self._call_hooks("spout_fail", message_id, failure)
        self._call("fail", self.source.failed, message_id, failure)

    def ack_untracked(self) -> None:
        """Acks the messages without a tree that were emitted before."""
        # A message that `ack` emits in turn is acked after the next call.
        done = self.untracked.copy()
        self.untracked.clear()
        self._counters.acked += len(done)
        if self._hooks:
            for message_id in done:
                self._call_hooks("spout_ack", message_id, 0.0)
        self._call("ack", self.source.acked, done)

    def _call_hooks(self, method: str, *arguments: Any) -> None:
        self.run_hooks(lambda hook: getattr(hook, method)(*arguments))

    def _count_throttled(self) -> None:
        if self._throttled_since is not None:
            self._counters.throttled_seconds += self._clock() - self._throttled_since
            self._throttled_since = None


def _message_ids(trees: Sequence[Tree]) -> list[Any]:
    return [message_id for message_id, _ in trees]
