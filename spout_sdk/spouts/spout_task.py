"""One task of a spout, without I/O: notices in, tuples and ack batches out."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

from spout_sdk.api.components import Failure, Spout
from spout_sdk.api.context import TaskContext
from spout_sdk.emitting.ack_buffer import AckBuffer
from spout_sdk.emitting.dead_letters import send_dead_letter
from spout_sdk.emitting.emit_plans import emit_plans
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import BrokerError, ComponentError, DeliveryError, TopologyError, UnsupportedVersionError
from spout_sdk.records import Record
from spout_sdk.spouts.pending import Pending, PendingLimit
from spout_sdk.spouts.source_spout import SourceSpout
from spout_sdk.spouts.spout_collector import SpoutCollector
from spout_sdk.topologies.topology import Topology
from tuple_tree.codec import decode_notice_batch
from tuple_tree.errors import VersionError, WireError
from tuple_tree.ids import random_ids
from tuple_tree.manifest import SpoutManifest
from tuple_tree.messages import SESSION_BYTES, FailReason, SpoutAddress
from tuple_tree.names import acks_topic, dead_letters_topic, notices_topic

logger = logging.getLogger("spout_sdk.spout")

LOST_MARGIN_TIMEOUTS: Final = 1
"""How many message timeouts beyond the largest tree age a tree is kept before it counts as lost."""


class SpoutTask:
    """Asks a spout for tuples, and hands it the outcomes of their trees.

    In order: `open_session`, wait until that was delivered, `open`, then `emit` and `tick` again and again,
    `handle` for each record of the notices topic, `flush` when there is nothing to emit, `close` at the end.

    Args:
        topology: whose.
        component: the spout's name.
        task: which of its tasks.
        environment: the world around it.
    """

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        declared = manifest.component(component)
        if not isinstance(declared, SpoutManifest):
            raise TopologyError(f"component {component!r} is no spout: run it as a bolt")
        self._component = component
        self._task = task
        self._limit = PendingLimit(declared.max_pending, declared.timeout_ms / 1000, environment.clock())
        self._sink = environment.sink
        self._counters = environment.counters
        self._clock = environment.clock
        self._dead_letters = dead_letters_topic(manifest.topology)
        self._failure: DeliveryError | None = None
        lost_after_ms = manifest.max_tree_age_ms + LOST_MARGIN_TIMEOUTS * declared.timeout_ms
        self._pending = Pending(lost_after_ms / 1000, environment.clock(), self._lost)
        self._acks: AckBuffer | None = None
        if manifest.acking:
            self._acks = AckBuffer(
                acks_topic(manifest.topology),
                manifest.ack_partitions,
                f"{component}/{task}",
                environment.entropy(SESSION_BYTES),
                environment.sink,
                InputOffsets(),
                SpoutAddress(notices_topic(manifest.topology, component), task, declared.timeout_ms),
            )
        self._context = TaskContext(
            manifest, component, task, environment.counters, environment.clock, environment.kafka
        )
        self._hooks = self._context.hooks
        self._hook_factories = topology.hooks
        self._throttled_since: float | None = None
        next_id = random_ids(environment.entropy).__next__
        plans = emit_plans(manifest, component, next_id, topology.groupings, topology.pack_tuples)
        self._collector = SpoutCollector(self._context, plans, environment, next_id, self._acks, self._pending)
        if self._acks is not None and topology.acks_ahead:
            # A bolt in Spark, or one with windows, sends entries of children before that of their input. No tuple may
            # reach it before the init: entries without one expire, and the input's could complete the tree (ADR 23).
            self._acks.send_children = _nothing
            self._collector.packer.before_send = self._acks.deliver
        try:
            spout = topology.factory(component)()
        except Exception as error:
            raise self._broken("__init__", error) from error
        if not isinstance(spout, Spout):
            raise TopologyError(f"component {component!r} makes a {type(spout).__name__}, which is no Spout: derive it")
        self._spout = spout
        self._source_spout = spout if isinstance(spout, SourceSpout) else None
        if self._source_spout is not None:
            self._source_spout.attach(self._context, environment)

    def open_session(self) -> None:
        """Opens a session as this task's writer; it must be delivered before anything is emitted."""
        if self._acks is not None:
            self._acks.open()

    def open(self) -> None:
        """Opens the spout.

        Raises:
            ComponentError: if it raised.
        """
        for make in self._hook_factories:
            self._call("prepare", lambda: self._context.add_hook(make()))  # noqa: B023 - called at once
        self._call("open", self._spout.open, self._context, self._collector)
        self._ack_untracked()

    def emit(self, calls: int) -> bool:
        """Calls `next_tuple` until it emits nothing, too much is pending, or it was called so often.

        Returns:
            Whether anything was emitted.

        Raises:
            ComponentError: if the spout raised.
        """
        counters = self._counters
        pending = self._pending
        next_tuple = self._spout.next_tuple
        untracked = self._collector.untracked
        limit = self._limit.value
        before = emitted = counters.emitted
        self._count_throttled()
        try:
            if self._source_spout is not None and len(pending) < limit:
                self._source_spout.emit(min(calls, limit - len(pending)))
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
        """Hands the outcomes in a record of the notices topic to the spout; what it does not hold is ignored.

        Raises:
            ComponentError: if the spout raised.
            UnsupportedVersionError: if it is of a version that this one cannot read.
        """
        try:
            batch = decode_notice_batch(record.value())
        except VersionError as error:
            raise UnsupportedVersionError(
                f"{record.topic()}[{record.partition()}] offset {record.offset()} cannot be read: {error.detail}"
            ) from error
        except WireError as error:
            self._reject(record, error)
            return
        pop = self._pending.pop
        counters = self._counters
        trees = [tree for tree in map(pop, batch.acked_roots.tolist()) if tree is not None]
        counters.ignored_notices += len(batch.acked_roots) - len(trees)
        counters.acked += len(trees)
        try:
            self._acked(trees)
        except Exception as error:
            raise self._broken("ack", error) from error
        self._limit.acked(len(trees))
        for root, reason, message in zip(
            batch.failed_roots.tolist(), batch.fail_reasons.tolist(), batch.fail_messages, strict=True
        ):
            tree = pop(root)
            if tree is None:
                counters.ignored_notices += 1
            else:
                self._failed(tree[0], Failure(FailReason(reason), message))
        self._ack_untracked()

    def _acked(self, trees: Sequence[tuple[Any, float]]) -> None:
        """Hands over what was fully processed: message id and time of the emit of each."""
        now = self._clock()
        for emitted_at, count in Counter(map(itemgetter(1), trees)).items():
            self._counters.complete_latency.record(now - emitted_at, count)
        if self._source_spout is not None and not (self._hooks or self._collector.is_watched):
            self._source_spout.ack_all([message_id for message_id, _ in trees])
            return
        for message_id, emitted_at in trees:
            for hook in self._hooks:
                hook.spout_ack(message_id, now - emitted_at)
            self._spout.ack(message_id)

    def tick(self, now: float) -> None:
        """Sends what has lingered, and gives up the trees of which nothing was heard for too long.

        Raises:
            DeliveryError: if an ack batch or a dead letter was not delivered; the task cannot go on.
            ComponentError: if the spout raised.
        """
        if self._failure is not None:
            raise self._failure
        self._collector.packer.tick(now)
        if self._acks is not None:
            self._acks.tick(now)
        self._pending.tick(now)
        self._limit.tick(now)
        if self._source_spout is not None:
            self._call("tick", self._source_spout.tick, now)

    def flush(self) -> None:
        """Sends all that is buffered, because there is nothing to emit or the task ends."""
        self._collector.packer.flush()
        if self._acks is not None:
            self._acks.flush()

    def release(self) -> None:
        """Commits what a `KafkaSpout` has done; before `close`, while the group still accepts it."""
        if self._source_spout is not None:
            self._source_spout.release()

    def uncommitted(self) -> None:
        """Says that a commit in the background has failed."""
        if self._source_spout is not None:
            self._source_spout.uncommitted()

    def close(self) -> None:
        """Closes the spout. An exception is only logged, because the task ends anyway."""
        self._count_throttled()
        for close in (self._spout.close, *(hook.cleanup for hook in self._hooks)):
            try:
                close()
            except Exception:  # whatever a user's spout raises
                logger.exception("%s/%d: close() raised", self._component, self._task)

    @property
    def spout(self) -> Spout:
        """The user's instance."""
        return self._spout

    @property
    def collector(self) -> SpoutCollector:
        """What the spout emits through."""
        return self._collector

    @property
    def pending_messages(self) -> list[Any]:
        """The message ids of the open trees, in the order in which they began."""
        return self._pending.message_ids

    @property
    def failure(self) -> DeliveryError | None:
        """Why the task cannot go on; None as long as it can."""
        if self._failure is None and self._acks is not None:
            return self._acks.failure
        return self._failure

    @property
    def pending(self) -> int:
        """How many trees are open."""
        return len(self._pending)

    def is_due(self, now: float) -> bool:
        """Whether a `KafkaSpout` has a message to emit now, and may emit it."""
        return self._source_spout is not None and not self.is_throttled and self._source_spout.is_due(now)

    @property
    def is_throttled(self) -> bool:
        """Whether as many trees are open as may be: `max_spout_pending`, or fewer while trees time out."""
        return len(self._pending) >= self._limit.value

    def _lost(self, message_id: Any) -> None:
        self._failed(message_id, Failure(FailReason.LOST))

    def _failed(self, message_id: Any, failure: Failure) -> None:
        self._counters.count_failed(failure.reason)
        if failure.reason is not FailReason.FAILED and self._limit.timed_out(len(self._pending)):
            logger.warning(
                "%s/%d: trees time out, so it keeps %d open for now instead of max_spout_pending, %d: the topology "
                "completes no more within a message timeout",
                self._component,
                self._task,
                self._limit.value,
                self._limit.most,
            )
        for hook in self._hooks:
            self._call("fail", hook.spout_fail, message_id, failure)
        self._call("fail", self._spout.fail, message_id, failure)

    def _ack_untracked(self) -> None:
        """Acks what was emitted untracked. What `ack` emits in turn is acked after the next call."""
        done, self._collector.untracked[:] = self._collector.untracked[:], []
        self._counters.acked += len(done)
        for message_id in done:
            for hook in self._hooks:
                self._call("ack", hook.spout_ack, message_id, 0.0)
            self._call("ack", self._spout.ack, message_id)

    def _count_throttled(self) -> None:
        if self._throttled_since is not None:
            self._counters.throttled_seconds += self._clock() - self._throttled_since
            self._throttled_since = None

    def _reject(self, record: Record, error: WireError) -> None:
        """Keeps a notice that cannot be read as a dead letter; its trees are given up as lost in the end."""
        self._counters.dead_letters += 1
        logger.warning("%s/%d: unreadable notice at offset %s: %s", self._component, self._task, record.offset(), error)

        def delivered(failure: Any, _message: Any) -> None:
            if failure is not None:
                self._failure = DeliveryError("a dead letter", self._dead_letters, 0, failure)

        send_dead_letter(self._sink, self._dead_letters, record, error, f"{self._component}/{self._task}", delivered)

    def _call(self, method: str, function: Callable[..., object], *arguments: Any) -> None:
        try:
            function(*arguments)
        except BrokerError:
            raise
        except Exception as error:
            raise self._broken(method, error) from error

    def _broken(self, method: str, error: Exception) -> ComponentError:
        logger.exception("%s/%d: %s() raised", self._component, self._task, method)
        return ComponentError(self._component, self._task, method, error)


def _nothing() -> None:
    """Inits are sent before the tuples, so nothing is to be sent before them."""
