"""Counts words, and replays failed lines: run it with `acker run examples.word_count:topology --local`."""

import itertools
import logging
from collections import Counter, deque

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Failure,
    Spout,
    SpoutCollector,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)

logger = logging.getLogger("word_count")

LINES = (
    "the quick brown fox jumps over the lazy dog",
    "a tuple tree is complete when the XOR of its edges is zero",
    "what fails comes back and what is acked is done",
)


class Lines(Spout):
    """Emits each line under a number, until that number is acked."""

    streams = (declare({"line": str}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.numbers = itertools.count(context.task, context.tasks)
        self.again: deque[int] = deque()

    def next_tuple(self) -> None:
        number = self.again.popleft() if self.again else next(self.numbers)
        self.collector.emit((LINES[number % len(LINES)],), message_id=number)

    def fail(self, message_id: int, failure: Failure) -> None:
        logger.info("line %d is replayed: %s %s", message_id, failure.reason.word, failure.message)
        self.again.append(message_id)


class Split(BasicBolt):
    """Emits the words of a line; they are anchored to it, and it is acked when this returns."""

    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_["line"].split():
            collector.emit((word,))


class Count(BasicBolt):
    """Counts words; equal words always reach the same task."""

    streams = (declare({"word": str, "count": int}),)

    def prepare(self, context: TaskContext) -> None:
        self.context = context
        self.counts: Counter[str] = Counter()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        word = tuple_["word"]
        self.counts[word] += 1
        collector.emit((word, self.counts[word]))
        self.context.count("words")


builder = TopologyBuilder("word-count", message_timeout=10.0, max_spout_pending=1_000)
builder.set_spout("lines", Lines)
builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
topology = builder.build()
