"""The demo's topology: lines → split → count, with failures at random.

    lines (2 tasks) ──shuffle──▶ split (2 tasks) ──fields: word──▶ count (2 tasks)

`acker demo` starts it, but it is an ordinary topology: `acker run acker_cli.demo.word_count:topology --local`, or each
component as a service, as in `docker-compose.yml`. Its parameters are in the environment, because every process of the
topology builds it.
"""

import os
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from acker_cli.demo.stores import CountStore, LineStore
from acker_cli.demo.text import lines, words
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    BatchBolt,
    FailTupleError,
    Failure,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tuple_tree.timing import Interval

REFERENCE: Final = "acker_cli.demo.word_count:topology"
LINES: Final = "lines"
SPLIT: Final = "split"
COUNT: Final = "count"
BOLTS: Final = (SPLIT, COUNT)

REPLAYED: Final = "replayed"
REPEATED: Final = "repeated"

_ON_PURPOSE: Final = "failed on purpose, {} the work was done"
_PREFIX: Final = "WORD_COUNT_"
# Short, so that what was lost by a kill is replayed soon.
_MESSAGE_TIMEOUT: Final = 5.0
_TICK: Final = 0.5
# A line has nine words: enough to keep every process busy, and few enough that none waits long.
_MAX_SPOUT_PENDING: Final = 1000


@dataclass(frozen=True, slots=True)
class Parameters:
    """Settings that vary between runs."""

    name: str = "word-count"  # of the topology
    directory: Path = Path("word-count")  # of the tasks' files
    fail_rate: float = 0.0  # share of tuples that the bolts fail
    seed: int = 0  # of the choice which; each task draws its own sequence from it
    rate: float = 0.0  # lines that each task of the spout emits a second, at most; 0 for as many as it can
    lines: int = 0  # how many of the text are emitted, from its beginning; 0 for all

    def to_environment(self) -> dict[str, str]:
        values = {**asdict(self), "directory": self.directory.absolute()}
        return {_PREFIX + name.upper(): str(value) for name, value in values.items()}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Parameters":
        """Reads what `to_environment` wrote; what is missing has its default."""
        default = asdict(cls())
        given = {name: environment[_PREFIX + name.upper()] for name in default if _PREFIX + name.upper() in environment}
        return cls(**{name: type(default[name])(value) for name, value in given.items()})


class LineSpout(Spout):
    """Emits the lines of the text that are its task's, each until it is acked; the message id of a line is its number.

    Acked lines are kept in a file, so a spout that was killed continues with the rest.
    """

    streams = (declare({"line": int, "text": str}),)

    def __init__(self, parameters: Parameters, clock: Callable[[], float] = time.monotonic) -> None:
        self._parameters = parameters
        self._pace = Interval(1 / parameters.rate if parameters.rate else 0.0, clock)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self._context = context
        self._collector = collector
        self._text = lines(self._parameters.lines)
        self._store = LineStore(self._parameters.directory, context.task)
        done = self._store.lines()
        mine = range(context.task, len(self._text), context.tasks)
        self._todo = deque(line for line in mine if line not in done)

    def next_tuple(self) -> None:
        self._store.commit()
        if self._todo and self._pace.due():
            line = self._todo.popleft()
            self._collector.emit((line, self._text[line]), message_id=line)

    def ack(self, message_id: int) -> None:
        self._store.add(message_id)

    def fail(self, message_id: int, failure: Failure) -> None:
        """The line is emitted again, before new ones."""
        del failure
        self._context.count(REPLAYED)
        self._todo.appendleft(message_id)

    def close(self) -> None:
        self._store.close()


def _lottery(parameters: Parameters, context: TaskContext) -> Callable[[], bool]:
    """Whether to fail a tuple, at random: before the work on it, or after, when its effects must not happen twice."""
    draw = random.Random(f"{parameters.seed}/{context.component}/{context.task}").random  # noqa: S311
    return lambda: draw() < parameters.fail_rate / 2


class SplitBolt(BasicBolt):
    """Splits a line into its words, each with its place in the text."""

    streams = (declare({"line": int, "position": int, "word": str}),)

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def prepare(self, context: TaskContext) -> None:
        self._fails = _lottery(self._parameters, context)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if self._fails():
            raise FailTupleError(_ON_PURPOSE.format("before"))
        line, text = tuple_
        for position, word in enumerate(words(text)):
            collector.emit((line, position, word))
        if self._fails():
            raise FailTupleError(_ON_PURPOSE.format("after"))


class CountBolt(BatchBolt):
    """Counts words, each place in the text once: one transaction for all that was read, which is acked after it."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self._context = context
        self._collector = collector
        self._fails = _lottery(self._parameters, context)
        self._store = CountStore(self._parameters.directory, context.task)

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        counted = []
        for tuple_ in tuples:
            if self._fails():
                self._collector.fail(tuple_, _ON_PURPOSE.format("before"))
            else:
                counted.append(tuple_)
        if repeated := self._store.add([tuple_.values for tuple_ in counted]):
            self._context.count(REPEATED, repeated)
        for tuple_ in counted:
            if self._fails():
                self._collector.fail(tuple_, _ON_PURPOSE.format("after"))
            else:
                self._collector.ack(tuple_)

    def cleanup(self) -> None:
        self._store.close()


def topology() -> Topology:
    """Builds the topology from the environment."""
    parameters = Parameters.from_environment(os.environ)
    builder = TopologyBuilder(
        parameters.name, message_timeout=_MESSAGE_TIMEOUT, tick=_TICK, max_spout_pending=_MAX_SPOUT_PENDING
    )
    builder.set_spout(LINES, lambda: LineSpout(parameters), tasks=2)
    builder.set_bolt(SPLIT, lambda: SplitBolt(parameters), tasks=2).shuffle_grouping(LINES)
    builder.set_bolt(COUNT, lambda: CountBolt(parameters), tasks=2).fields_grouping(SPLIT, "word")
    return builder.build()
