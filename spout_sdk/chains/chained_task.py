"""A chained bolt in a task: it receives tuples of its source, and emits tuples."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from operator import length_hint
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.context import TaskId
from spout_sdk.api.tuples import InputPack, InputStream
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.bolts.batch_size import BatchSize
from spout_sdk.bolts.executor import Executor
from spout_sdk.bolts.tuple_reader import tuples_of
from spout_sdk.chains.chained_inputs import ChainedInputs
from spout_sdk.chains.noted_outcomes import ChainedOutcomes
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.task import Task
from spout_sdk.records import ChainedRecord
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.chained_batch import ChainedBatch
from tuple_tree.components import BoltManifest
from tuple_tree.errors import WireError
from tuple_tree.identities import source_hash
from tuple_tree.input_batch import InputBatch
from tuple_tree.names import chain_of
from tuple_tree.payloads import LocalCodec, payload_codec
from tuple_tree.streams import Values

# The counter of inputs that were neither acked nor failed in time, and so were settled.
EXPIRED_INPUTS: Final = "expired inputs"


class ChainedTask(Task):
    """A bolt that runs in the task of another component, the head, and uses its outbox.

    Its inputs have no offsets in a topic: they are numbered. `receives_columns`: whether its source emits columns.

    Attributes:
        waiting: how many received tuples are not executed.
    """

    _logger = get_logger("spout_sdk.bolt")

    def __init__(self, head: Task, bolt: BoltManifest, *, receives_columns: bool) -> None:
        manifest, number = head.topology.manifest, head.context.task
        environment = replace(head.environment, counters=head.environment.chained[bolt.name])
        self.outbox = head.outbox
        self._head = head
        self.receives_columns = receives_columns
        super().__init__(head.topology, bolt.name, number, environment)
        self.id = TaskId(bolt.name, number)
        commits_effects = manifest.guarantee_of(head.context.component) == "exactly_once"
        self.inputs = ChainedInputs(has_no_effects=not commits_effects)
        self.outcomes = ChainedOutcomes(self, self.inputs)
        self.bolt = self._make()
        self.executor = Executor(self.bolt, self, self.outcomes)
        self.adapter = self.executor.adapter
        self.inputs.has_no_effects |= self.adapter.emits_with_ack
        (subscription,) = bolt.subscriptions
        stream = manifest.stream(subscription.source, subscription.stream)
        self._codec: Any = payload_codec(stream)
        self._stream = InputStream(subscription.source, stream.name, stream.field_names, self._codec)
        source = f"{subscription.source}/{stream.name}".encode()
        self._source, self._hash = (SOURCE_HEADER, source), source_hash(source)
        self._is_identified = manifest.is_identified(bolt.name)
        self._batch_size = BatchSize()
        self._numbers = count()
        self._waiting: deque[tuple[InputPack, Any]] = deque()  # each with its rows or its record batch
        self._begun: Any = None  # the rest of the begun pack
        self.waiting = 0

    def prepare(self) -> None:
        """Prepares the bolt; raises `ComponentError` if it raised."""
        self._add_hooks()
        self._call("prepare", self.executor.prepare)

    def take(self, pack: OpenPack) -> None:
        """Receives the tuples of a pack; they wait until `run`."""
        placed = pack.take_rows()
        rows = placed.rows
        if not isinstance(pack.codec, LocalCodec) and isinstance(rows, list):
            # Other bolts receive them through Kafka, so the rows are encoded, and are decoded here.
            is_packed = pack.codec.max_rows > 1
            rows = self._codec.decode_batch(self._codec.encode(rows)) if is_packed else self._decoded(rows)
        size = len(rows)
        if placed.runs:
            identities = placed.identities
            if identities is not None:
                identities = identities.received(self._hash)
                if placed.counts is not None:
                    identities = identities.spread(placed.counts)
            batch: InputBatch = ChainedBatch(placed.runs, pack.trace_context, identities)
        else:
            batch = InputBatch(pack.trace_context, is_tracked=False)
        made = ChainedRecord(
            *(chain_of(self._head.context.component), self._task, next(self._numbers)),
            headers_=[self._source],
            timestamp_=(1, self.environment.wall_ms()),
        )
        of = InputPack(made, self._stream, made.offset_, size, batch, 0, placed.starts)
        self.outcomes.opened(of)
        pack.counters.transferred += size
        self._waiting.append((of, rows))
        self.waiting += size

    def run(self, until: float) -> bool:
        """Executes waiting tuples until about `until`; returns False if the bolt is not busy and has tuples left."""
        while self._begun is not None or self._waiting:
            if self.adapter.is_busy:
                return True
            if self._begun is None:
                self._begun = self._begin(*self._waiting.popleft())
            if not self._execute(until):
                return self.adapter.is_busy
            self._begun = None
        return True

    @property
    def has_waiting(self) -> bool:
        """Whether tuples wait that are not executed."""
        return self._begun is not None or bool(self._waiting)

    def tick(self, now: float) -> None:
        """Handles delivery reports, expires inputs, and executes a tick tuple if one is due."""
        self.outcomes.settle_written()
        self.outcomes.retries.tick(now)
        if stale := self.inputs.expire(now, self.executor.input_age):
            self.outcomes.expire(stale)
            self.outcomes.forget_expired()
            self.context.count(EXPIRED_INPUTS, len(stale))
            self._logger.error(
                "%s: tuples of %d chained packs were neither acked nor failed for %.0f s. Their trees have failed; "
                "ack or fail each input",
                *(self.name, len(stale), self.executor.input_age),
            )
        self.executor.tick(now)

    def execute_retries(self, now: float, until: float) -> int:
        """Executes due retries, as `Executor.execute_retries` does; returns how many calls it made."""
        return self.executor.execute_retries(now, until, others_wait=self.has_waiting)

    def cleanup(self) -> None:
        """Cleans up the bolt, which may still ack."""
        self._end("cleanup", self.adapter.cleanup)

    def _begin(self, pack: InputPack, rows: Any) -> Any:
        """The tuples, the batch or the rows of a pack, as the bolt takes them."""
        if self.adapter.takes == "columns":
            batch = self._codec.columns(rows) if isinstance(rows, list) else rows
            return ArrowInput.of(batch, pack, self._codec)
        errors: Mapping[int, WireError] = {}
        if not isinstance(rows, list):
            rows, errors = self._codec.readable(rows)
        tuples = tuples_of(rows, pack)
        for index, error in errors.items():
            self.outcomes.reject(tuples[index], error)
        if errors:
            tuples = [each for each in tuples if each.index not in errors]
        return iter(tuples) if self.adapter.takes == "tuples" else tuples

    def _execute(self, until: float) -> bool:
        """Executes the begun pack until about a time of the clock; returns whether all of it is executed."""
        if self.adapter.takes == "tuples":
            left = length_hint(self._begun)
            try:
                return self.executor.execute(self._begun, until)
            finally:
                self.waiting -= left - length_hint(self._begun)
        while self._begun:
            if self.adapter.is_busy:
                return False
            batch = self._begun[: 1 if self.adapter.failures.tries_one else self._batch_size.tuples]
            self._begun = self._begun[len(batch) :]
            self.waiting -= len(batch)
            began = self._clock()
            self.executor.execute_batch(batch)
            now = self._clock()
            self._batch_size.executed(len(batch), now - began)
            if now >= until:
                return not self._begun
        return True

    def _decoded(self, payloads: Sequence[bytes]) -> list[Values]:
        return [values for payload in payloads for values in self._codec.decode(payload)[0]]
