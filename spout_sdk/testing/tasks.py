"""The tasks of a simulated cluster: what the loops of a process do, a turn at a time.

A turn does what `bolt_loop` and `spout_loop` do between two polls, with the tasks and delivery guarantees of a process:
read, execute or emit, tick, flush when there is nothing more. It may end in the middle of a record, so that a kill may
come there and tasks take turns in any order; so these are loops of their own.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import numpy as np

from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.delivery.delivery_guarantees import AtLeastOnce, AtMostOnce, DeliveryGuarantee, ExactlyOnce
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.task import open_sessions
from spout_sdk.errors import RolledBackError
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.statistics.counters import Counters
from spout_sdk.statistics.stats import NO_INPUT, Stats
from spout_sdk.testing.broker import MemoryBroker
from spout_sdk.testing.chance import Chance, SimulatedClock
from spout_sdk.testing.journal import Journal
from spout_sdk.testing.sink import MemoryReader, MemorySink, MemoryTransactions
from spout_sdk.testing.source_topics import MemorySource
from spout_sdk.topologies.topology import Topology
from tuple_tree.manifest import Guarantee
from tuple_tree.names import component_group, notices_topic, tuples_topic

LINGER_TURNS: Final = 4
"""Turns in a row after which what is buffered has lingered: no time passes, and yet it must not wait for ever."""


@dataclass(frozen=True, slots=True)
class World:
    """What tasks live in."""

    topology: Topology
    broker: MemoryBroker
    clock: SimulatedClock
    chance: Chance
    journals: Mapping[str, Journal]


class _Running:
    """What spout and bolt tasks have in common."""

    def __init__(self, world: World, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self._broker = world.broker
        self._clock = world.clock
        self._counters = Counters()
        self._sink = MemorySink(world.broker)
        self._environment = TaskEnvironment(self._sink, self._counters, world.clock, world.chance.entropy())
        self._group = component_group(world.topology.name, name)
        self._busy_turns = 0

    def _is_to_flush(self, busy: bool) -> bool:
        self._busy_turns = self._busy_turns + 1 if busy else 0
        return self._busy_turns % LINGER_TURNS == 0

    def _snapshot(self, pending: int, oldest_input: tuple[float, str] = NO_INPUT) -> Stats:
        stats = Stats.snapshot(self.name, 0, (self.number,), pending, self._counters, oldest_input)
        return replace(stats, pids=())


class RunningSpout(_Running):
    """A task of a spout."""

    def __init__(self, world: World, name: str, number: int) -> None:
        super().__init__(world, name, number)
        topic = notices_topic(world.topology.name, name)
        self._topic = topic if world.broker.has(topic, number) else None
        # A new session holds no trees, so earlier outcomes concern no task.
        self._position = world.broker.end(topic, number) if self._topic else 0
        environment = replace(self._environment, open_source=lambda _: MemorySource(world.broker, self._group))
        self.task = SpoutTask(world.topology, name, number, environment)
        open_sessions(self._sink, [self.task])
        world.journals[name].watch_spout(self.task, number)
        self.task.open()

    @property
    def stats(self) -> Stats:
        return self._snapshot(self.task.pending)

    def turn(self, limit: int) -> bool:
        emitted = self.task.emit(limit)
        handled = self._handle_notices(limit)
        self._sink.poll()
        self.task.tick(self._clock())
        if self._is_to_flush(emitted or handled):
            self.task.flush()
            self._sink.poll()
        return emitted or handled or self.task.is_due(self._clock())

    def end(self) -> None:
        self.task.release()
        self.task.close()
        self.task.flush()
        self._sink.poll()

    def _handle_notices(self, limit: int) -> bool:
        if self._topic is None:
            return False
        records = self._broker.fetch(self._topic, self.number, self._position, limit)
        for record in records:
            self._position = record.offset_ + 1
            self.task.handle(record)
        return bool(records)


class RunningBolt(_Running):
    """A task of a bolt; it reads on from what its predecessor has committed."""

    def __init__(self, world: World, name: str, number: int) -> None:
        super().__init__(world, name, number)
        self._topic = tuples_topic(world.topology.name, name)
        self._journal = world.journals[name]
        self._commits_each_turn = world.topology.manifest.guarantee == "exactly_once"
        self._guarantee = self._delivery_guarantee(world.topology.manifest.guarantee)
        reader: Any = MemoryReader(world.broker, self._group, self._topic)
        committed = world.broker.committed(self._group, self._topic, number)
        self._position = committed.offset if committed else 0
        self._tuples: list[Tuple] = []
        self._columns: list[ArrowInput] = []
        self.task = BoltTask(world.topology, name, number, self._guarantee.environment)
        self._guarantee.attach(reader, {number: self.task})
        self._guarantee.on_assigned({number: self.task})
        self._journal.watch_bolt(self.task, number)
        self.task.prepare()

    @property
    def stats(self) -> Stats:
        return self._snapshot(self.task.open_inputs, self.task.oldest_input(self._environment.clock()))

    def turn(self, limit: int) -> bool:
        if not (self._tuples or self._columns):
            self._read(limit)
        columns, self._columns = self._columns[:1], self._columns[1:]
        # Not always all of a record: a kill may come in the middle of it. A transaction ends with a record.
        end = len(self._tuples) if self._commits_each_turn else limit
        tuples, self._tuples = self._tuples[:end], self._tuples[end:]
        self._execute(tuples, columns)
        now = self._clock()
        self._sink.poll()
        self.task.tick(now)
        if self._commits_each_turn or self._is_to_flush(bool(tuples or columns)):
            self.task.flush()
            self._guarantee.on_idle(now)
        self._guarantee.on_tick(now)
        return bool(tuples or columns or self._tuples or self._columns)

    def end(self) -> None:
        self._execute(self._tuples, self._columns)
        self._tuples, self._columns = [], []
        self.task.cleanup()
        with contextlib.suppress(RolledBackError):  # as at the stop of a process: its successor executes that again
            self._guarantee.on_revoked([self.number])

    def _delivery_guarantee(self, guarantee: Guarantee) -> DeliveryGuarantee:
        sink: Any = self._sink
        if guarantee == "exactly_once":
            transactions: Any = MemoryTransactions(self._broker, self._group)
            return ExactlyOnce(replace(self._environment, sink=transactions), transactions, self.name)
        chosen = AtMostOnce if guarantee == "at_most_once" else AtLeastOnce
        return chosen(self._environment, sink, self.name)

    def _read(self, limit: int) -> None:
        records: list[Any] = [*self._broker.fetch(self._topic, self.number, self._position, limit)]
        if records:
            self._position = records[-1].offset() + 1
            self._guarantee.on_polled(records)
            if self.task.takes_columns:
                read = map(self.task.read_columns, records)
                self._columns = [rows for rows in read if rows is not None]
            else:
                self._tuples = [tuple_ for record in records for tuple_ in self.task.read(record)]

    def _execute(self, tuples: Sequence[Tuple], columns: Sequence[ArrowInput]) -> None:
        self._journal.hand_over(self.number, tuples)
        if not self.task.takes_batches:
            for _, of_record in groupby(tuples, attrgetter("pack")):
                self.task.execute(of_record, math.inf)
        elif tuples:
            self.task.execute_batch(tuples)
        for rows in columns:
            self._journal.hand_over(self.number, rows.tuples(np.arange(len(rows))))
            self.task.execute_columns(rows)
