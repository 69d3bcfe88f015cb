"""A chained bolt in a task: it receives tuples of its source, and emits tuples."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from operator import length_hint
from typing import Any, Final, NamedTuple

import numpy as np

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.context import TaskId
from spout_sdk.api.tuples import InputPack, InputStream
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.bolts.batch_size import BatchSize
from spout_sdk.bolts.executor import Executor
from spout_sdk.bolts.tuple_reader import tuples_of
from spout_sdk.chains.chained_inputs import ChainedInputs
from spout_sdk.chains.noted_outcomes import ChainedOutcomes
from spout_sdk.emitting.open_pack import OpenPack, PlacedRows
from spout_sdk.emitting.task import Task
from spout_sdk.records import ChainedRecord
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.chained_batch import ChainedBatch
from tuple_tree.components import BoltManifest
from tuple_tree.errors import WireError
from tuple_tree.identities import source_hash
from tuple_tree.input_batch import InputBatch
from tuple_tree.names import chain_of
from tuple_tree.payloads import LocalCodec, decode_tuples, payload_codec
from tuple_tree.streams import Values

# The counter of inputs that were neither acked nor failed in time, and so were settled.
EXPIRED_INPUTS: Final = "expired inputs"


class ChainedTask(Task):
    """A bolt that runs in the task of another component, the head, and uses its outbox.

    Its inputs have no offsets in a topic: they are numbered. `receives_columns`: whether its source emits columns.

    Attributes:
        waiting: how many received tuples are not executed.
        is_running: whether `run` runs.
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
        self._waiting: deque[_Received] = deque()
        self._pack: InputPack | None = None  # the pack whose tuples are executed
        self._begun: Any = None  # its tuples or rows that are not executed
        self.waiting = 0
        self.is_running = False

    def prepare(self) -> None:
        """Prepares the bolt; raises `ComponentError` if it raised."""
        self._add_hooks()
        self._call("prepare", self.executor.prepare)

    def take(self, pack: OpenPack) -> None:
        """Receives the tuples of a pack; they wait until `run`."""
        placed = pack.take_rows()
        try:
            received = self._received(pack, placed)
        except BaseException:  # out of memory: trees that lack these tuples must not complete
            self.outbox.keep_open((batch, place) for batch, places in placed.runs for place in places.tolist())
            raise
        self.outcomes.opened(received.pack)
        pack.counters.transferred += received.pack.size
        self._waiting.append(received)
        self.waiting += received.pack.size

    def _received(self, pack: OpenPack, placed: PlacedRows) -> "_Received":
        batch: InputBatch
        if placed.runs:
            identities = placed.identities
            if identities is not None:
                identities = identities.received(self._hash)
                if placed.counts is not None:
                    identities = identities.spread(placed.counts)
            batch = ChainedBatch(placed.runs, pack.trace_context, identities)
        else:
            batch = InputBatch(pack.trace_context, is_tracked=False)
        made = ChainedRecord(
            *(chain_of(self._head.context.component), self._task, next(self._numbers)),
            headers_=[self._source],
            timestamp_=(1, self.environment.wall_ms()),
        )
        of = InputPack(made, self._stream, made.offset_, len(placed.rows), batch, 0, placed.starts)
        # The rows of a stream that other bolts receive through Kafka are encoded.
        return _Received(of, placed.rows, is_encoded=not isinstance(pack.codec, LocalCodec))

    def run(self, until: float) -> bool:
        """Executes waiting tuples until about `until`; returns False if the bolt is not busy and has tuples left."""
        if self.is_running:
            return False
        self.is_running = True
        try:
            return self._run(until)
        finally:
            self.is_running = False

    def _run(self, until: float) -> bool:
        while True:
            if self._pack is not None and not self.inputs.is_open(self._pack.offset):
                self._end_pack()  # expired, so its trees have failed
            if self._pack is None:
                if not self._waiting:
                    return True
                if self.adapter.is_busy:
                    return True
                self._begin(self._waiting.popleft())
            elif self.adapter.is_busy:
                return True
            elif not self._execute(until):
                return self.adapter.is_busy
            else:
                self._end_pack()

    def _end_pack(self) -> None:
        self.waiting -= length_hint(self._begun)
        self._pack = self._begun = None

    @property
    def has_waiting(self) -> bool:
        """Whether tuples wait that are not executed."""
        return self._pack is not None or bool(self._waiting)

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

    def drop_waiting(self) -> None:
        """Drops waiting tuples, because the task ends; they stay open."""
        self._waiting.clear()
        self._pack, self._begun, self.waiting = None, None, 0

    def _begin(self, received: "_Received") -> None:
        """Begins a pack; rejects tuples that cannot be read."""
        pack, rows, errors = received.pack, received.rows, dict[int, WireError]()
        if received.is_encoded and isinstance(rows, list):
            rows, errors = self._decoded(rows)
        values = rows
        if self.adapter.takes == "columns":
            begun: Any = self._columns(pack, rows, errors)
        else:
            if not isinstance(rows, list):
                values, found = self._codec.readable(rows)
                errors |= found
            begun = tuples_of(values, pack)
            if errors:
                begun = [each for each in begun if each.index not in errors]
        for index, error in errors.items():
            self.outcomes.reject(pack.tuple_at(index, values[index] if isinstance(values, list) else ()), error)
        self.waiting -= pack.size - len(begun)
        self._pack, self._begun = pack, iter(begun) if self.adapter.takes == "tuples" else begun

    def _columns(self, pack: InputPack, rows: Any, errors: dict[int, WireError]) -> ArrowInput:
        """The rows of a pack as columns, without those in `errors`; adds an error for each row that does not fit."""
        codec = self._codec
        if not isinstance(rows, list):
            return ArrowInput.of(rows, pack, codec)
        if errors or not all(map(codec.is_row, rows)):
            rows = _each(rows, lambda row: row if codec.is_row(row) else codec.row(row), errors)
        fit = [index for index in range(pack.size) if index not in errors]
        return ArrowInput(codec.columns([rows[index] for index in fit]), pack, codec, np.array(fit, np.intp))

    def _decoded(self, rows: list[Any]) -> tuple[Any, dict[int, WireError]]:
        """Encoded rows as Kafka would deliver them: a record batch, or values; and errors by row index."""
        codec = self._codec
        if codec.max_rows > 1:
            with suppress(Exception):
                return codec.decode_batch(codec.encode(rows)), {}
        errors: dict[int, WireError] = {}
        return _each(rows, lambda row: decode_tuples(codec, codec.encode([row]))[0], errors), errors

    def _execute(self, until: float) -> bool:
        """Executes the begun pack until about `until`; returns whether all of it is executed."""
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


class _Received(NamedTuple):
    """A pack that the source has passed on.

    Attributes:
        rows: its rows, or a record batch.
        is_encoded: whether the rows were converted by the codec of the stream; otherwise they are values.
    """

    pack: InputPack
    rows: Any
    is_encoded: bool


def _each(rows: Sequence[Any], made: Callable[[Any], Values], errors: dict[int, WireError]) -> list[Values]:
    """Calls a function with each row, and returns the results; an error is added to `errors`, and its result is ()."""
    found: list[Values] = []
    for index, row in enumerate(rows):
        try:
            found.append(() if index in errors else made(row))
        except Exception as error:  # noqa: BLE001 - of any codec
            errors[index] = error if isinstance(error, WireError) else WireError("bad-payload", str(error))
            found.append(())
    return found
