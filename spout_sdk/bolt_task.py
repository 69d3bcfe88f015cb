"""One task of a bolt, without I/O: records in, tuples and ack batches out."""

import logging
from typing import Any

from spout_sdk.ack_buffer import AckBuffer
from spout_sdk.collectors import BasicCollector, OutputCollector
from spout_sdk.components import BasicBolt, Bolt
from spout_sdk.context import TaskContext
from spout_sdk.dead_letters import send_dead_letter
from spout_sdk.emit_plans import emit_plans
from spout_sdk.errors import ComponentError, DeliveryError, FailTupleError, TopologyError
from spout_sdk.records import Record, TaskEnvironment
from spout_sdk.topology import Topology
from spout_sdk.tuples import InputStream, Tuple
from tuple_tree.anchors import ANCHORS_HEADER, SOURCE_HEADER, Edges, unpack_anchors
from tuple_tree.errors import WireError
from tuple_tree.ids import random_ids
from tuple_tree.manifest import Manifest
from tuple_tree.messages import SESSION_BYTES
from tuple_tree.names import acks_topic, dead_letters_topic
from tuple_tree.streams import PayloadCodec, payload_codec

logger = logging.getLogger("spout_sdk.bolt")


class BoltTask:
    """Executes the records of one partition of a bolt's inbox.

    In order: `open_session`, wait until that was delivered, `prepare`, then `execute` for each record and `tick` now
    and then, `flush` when the input has run dry, `cleanup` at the end. Whatever `committable` says may be committed.

    Args:
        topology: whose.
        component: the bolt's name.
        task: which of its tasks.
        environment: the world around it.
    """

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        self._component = component
        self._task = task
        self._sink = environment.sink
        self._counters = environment.counters
        self._dead_letters = dead_letters_topic(manifest.topology)
        self._inputs = environment.inputs()
        self._sources = _sources(manifest, component)
        self._failure: DeliveryError | None = None
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
        next_id = random_ids(environment.entropy).__next__
        plans = emit_plans(manifest, component, next_id)
        self._collector = OutputCollector(component, plans, environment, next_id, self._acks, self._inputs)
        self._basic = BasicCollector(self._collector)
        self._context = TaskContext(
            manifest.topology, component, task, manifest.component(component).tasks, environment.counters
        )
        try:
            bolt = topology.factory(component)()
        except Exception as error:
            raise self._broken("__init__", error) from error
        if isinstance(bolt, BasicBolt):
            self._bolt: Bolt | BasicBolt = bolt
            self._user_execute: Any = bolt.execute
            self._run = self._execute_basic
        elif isinstance(bolt, Bolt):
            self._bolt = bolt
            self._run = bolt.execute
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
            if isinstance(self._bolt, BasicBolt):
                self._bolt.prepare(self._context)
            else:
                self._bolt.prepare(self._context, self._collector)
        except Exception as error:
            raise self._broken("prepare", error) from error

    def execute(self, record: Record) -> None:
        """Executes a record; whatever the bolt raises fails the tuple, and what cannot be read is a dead letter."""
        offset: int = record.offset()  # type: ignore[assignment]
        self._inputs.start(offset)
        anchors = source = None
        for name, value in record.headers() or ():
            if name == ANCHORS_HEADER:
                anchors = value
            elif name == SOURCE_HEADER:
                source = value
        edges: Edges = {}
        try:
            if anchors and self._acks is not None:
                edges = unpack_anchors(anchors)
            known = self._sources.get(source)
            if known is None:
                raise self._unknown_source(source)
            codec, stream = known
            payload = record.value()
            if payload is None:
                raise WireError("no-payload", "the record has no value")
            values = codec.decode(payload)
        except WireError as error:
            self._reject(record, offset, edges, error)
            return
        tuple_ = Tuple(values, edges, offset, record, stream)
        self._counters.executed += 1
        try:
            self._run(tuple_)
        except FailTupleError as error:
            self._fail(tuple_, str(error))
        except Exception as error:  # whatever a user's bolt raises
            logger.exception(
                "%s/%d failed the tuple at %s[%d] offset %d, roots %s",
                self._component,
                self._task,
                tuple_.topic,
                tuple_.partition,
                offset,
                _shown(edges),
            )
            self._fail(tuple_, f"{type(error).__name__}: {error}")

    def tick(self, now: float) -> None:
        """Sends what has lingered.

        Raises:
            DeliveryError: if an ack batch or a dead letter was not delivered; the task cannot go on.
        """
        if self._failure is not None:
            raise self._failure
        if self._acks is not None:
            self._acks.tick(now)

    def flush(self) -> None:
        """Sends all that is buffered, because the input has run dry or the task ends."""
        if self._acks is not None:
            self._acks.flush()

    def cleanup(self) -> None:
        """Cleans the bolt up; it may still ack. An exception is only logged, because the task ends anyway."""
        try:
            self._bolt.cleanup()
        except Exception:  # whatever a user's bolt raises
            logger.exception("%s/%d: cleanup() raised", self._component, self._task)

    @property
    def failure(self) -> DeliveryError | None:
        """Why the task cannot go on; None as long as it can."""
        if self._failure is None and self._acks is not None:
            return self._acks.failure
        return self._failure

    @property
    def committable(self) -> int | None:
        """The input offset that may be committed; None if nothing was executed yet."""
        return self._inputs.committable

    @property
    def open_inputs(self) -> int:
        """How many inputs are not done."""
        return self._inputs.open_count

    def _execute_basic(self, tuple_: Tuple) -> None:
        basic = self._basic
        basic.input = tuple_
        try:
            self._user_execute(tuple_, basic)
        finally:
            basic.input = None
        self._collector.ack(tuple_)

    def _fail(self, tuple_: Tuple, message: str) -> None:
        if not tuple_.settled:
            self._collector.fail(tuple_, message)

    def _reject(self, record: Record, offset: int, edges: Edges, error: WireError) -> None:
        """Keeps the record as a dead letter, and fails its trees: they cannot complete."""
        self._counters.dead_letters += 1
        logger.warning(
            "%s/%d: %s[%s] offset %d goes to %s: %s",
            self._component,
            self._task,
            record.topic(),
            record.partition(),
            offset,
            self._dead_letters,
            error,
        )
        self._inputs.split(offset, 1 + len(edges))
        if self._acks is not None:
            for root in edges:
                self._acks.fail(root, f"{self._component}: dead letter, {error}", offset)

        def delivered(failure: Any, _message: Any) -> None:
            if failure is None:
                self._inputs.settle(offset)
            else:
                self._failure = DeliveryError("a dead letter", self._dead_letters, 0, failure)

        send_dead_letter(self._sink, self._dead_letters, record, error, f"{self._component}/{self._task}", delivered)

    def _unknown_source(self, source: bytes | None) -> WireError:
        if source is None:
            return WireError("no-source", f"the record has no {SOURCE_HEADER} header")
        known = ", ".join(name.decode() for name in self._sources)
        return WireError("unknown-source", f"{self._component} does not receive {source!r}: it receives {known}")

    def _broken(self, method: str, error: Exception) -> ComponentError:
        logger.exception("%s/%d: %s() raised", self._component, self._task, method)
        return ComponentError(self._component, self._task, method, error)


def _shown(edges: Edges) -> str:
    return ", ".join(f"{root:016x}" for root in edges) or "none"


def _sources(manifest: Manifest, bolt: str) -> dict[Any, tuple[PayloadCodec, InputStream]]:
    sources: dict[Any, tuple[PayloadCodec, InputStream]] = {}
    component = manifest.component(bolt)
    for subscription in getattr(component, "subscriptions", ()):
        stream = manifest.stream(subscription.source, subscription.stream)
        sources[f"{subscription.source}/{stream.name}".encode()] = (
            payload_codec(stream),
            InputStream(subscription.source, stream.name, stream.field_names),
        )
    return sources
