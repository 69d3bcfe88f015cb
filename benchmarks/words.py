"""Components that tell what came through: lines whose words are counted, each under the id of its message.

Imported by processes of the SDK, so PySpark is imported inside of functions.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spout_sdk import BasicBolt, BasicCollector, FailTupleError, TaskContext, Topology, TopologyBuilder, Tuple, declare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "WORDS_TOPOLOGY"
"""Environment variable: name of the topology."""

COUNTED: Final = "WORDS_COUNTED"
"""Environment variable: directory in which the count bolt writes down what it has processed."""

FAIL_RATE: Final = "WORDS_FAIL_RATE"
"""Environment variable: which part of the messages fails at the first attempt."""

MAX_PENDING: Final = "WORDS_MAX_PENDING"
"""Environment variable: trees that may be open."""

LINE: Final = declare({"message": int, "line": str}, codec="avro")
WORD: Final = declare({"message": int, "position": int, "word": str}, codec="avro")
SOURCE: Final = "lines-of-words"

_VOCABULARY: Final = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
_MOST_WORDS: Final = 5

Place = tuple[int, int, str]
"""Message, position and word."""


def line(message: int) -> str:
    """The line of a message: one to five words."""
    return " ".join(_VOCABULARY[(message + at) % len(_VOCABULARY)] for at in range(1 + message % _MOST_WORDS))


def places(messages: int) -> Iterator[Place]:
    """What has to be processed of so many messages."""
    for message in range(messages):
        for position, word in enumerate(line(message).split()):
            yield message, position, word


def chosen(message: int, rate: float) -> bool:
    """Whether a message fails at its first attempt: a hash of its number, so the same ones in each run."""
    return message * 2_654_435_761 % 2**32 < rate * 2**32


def explode(rows: DataFrame) -> DataFrame:
    """Runs in Spark: a row for each word of a line."""
    from pyspark.sql import functions as F  # noqa: N812

    return rows.select("message", F.posexplode(F.split("line", " ")).alias("position", "word"), "_tracking")


class Split(BasicBolt):
    """A tuple for each word of a line."""

    streams = (WORD,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Emits the words."""
        message, text = tuple_
        for position, word in enumerate(text.split()):
            collector.emit((message, position, word))


class Count(BasicBolt):
    """Writes down each tuple that it has processed, so that repeats can be told from losses."""

    def prepare(self, context: TaskContext) -> None:
        """Opens a file of this task's own."""
        directory = Path(os.environ[COUNTED])
        directory.mkdir(exist_ok=True)
        self.file = (directory / f"{context.task}-{uuid.uuid4().hex}").open("w")
        self.fail_rate = float(os.environ.get(FAIL_RATE, "0"))
        self.failed: set[tuple[int, int]] = set()

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        """Writes the tuple down, or fails it if its message was chosen."""
        message, position, word = tuple_
        if chosen(message, self.fail_rate) and (message, position) not in self.failed:
            self.failed.add((message, position))
            raise FailTupleError("chosen to fail")
        self.file.write(f"{message} {position} {word}\n")

    def cleanup(self) -> None:
        """Writes out what is buffered."""
        self.file.close()


def counted(directory: Path) -> list[Place]:
    """What the count bolt has processed, repeats included."""
    found = []
    for file in directory.iterdir():
        for row in file.read_text().splitlines():
            message, position, word = row.split()
            found.append((int(message), int(position), word))
    return found


def topology() -> Topology:
    """Lines (in Spark) → split (in Spark) → count."""
    builder = TopologyBuilder(
        os.environ[NAME],
        ack_partitions=4,
        # Nothing is to time out here, however slow the machine: what fails, fails because it was chosen.
        message_timeout=240,
        max_spout_pending=int(os.environ[MAX_PENDING]),
    )
    builder.set_spout("lines", f"{os.environ[NAME]}.{SOURCE}", external=True, streams=[LINE])
    split = builder.set_bolt("split", explode, tasks=2, external=True, streams=[WORD])
    split.shuffle_grouping("lines")
    builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
    return builder.build()
