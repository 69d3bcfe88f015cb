"""The bolt that keeps the totals, and the file of each of its tasks.

A tuple may come twice: after a failure, a time-out or a crash its line is delivered again, and in another micro-batch
it may come together with other lines. So a tuple has no identity that would do; the places of its words in the text
have. A task notes the places that it has counted and adds to the totals in one transaction, and only then is the tuple
acked. Equal places always reach the same task, because the topology groups by novel and chapter.

The note of a place could be dropped once its line is acked; 26,000 of them are not worth the trouble.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.austen_sentiment.text import directory
from spout_sdk import BasicBolt, BasicCollector, TaskContext, Tuple

COUNTED: Final = "counted"
REPEATED: Final = "repeated"

_BUSY_SECONDS: Final = 10.0
_TABLES: Final = """
    CREATE TABLE IF NOT EXISTS counted (place INTEGER PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS totals (
        novel TEXT, chapter INTEGER, word TEXT, valence REAL, times INTEGER, PRIMARY KEY (novel, chapter, word)
    ) WITHOUT ROWID;
"""


class TotalsFile:
    """The counts of one task.

    Args:
        directory: of the files of all tasks.
        task: number of the task.
    """

    def __init__(self, directory: Path, task: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # A task that moves may for a moment be open in two processes.
        self._connection = sqlite3.connect(directory / f"{task}.sqlite", timeout=_BUSY_SECONDS, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing by this, only a machine without power would.
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.executescript(_TABLES)

    def add(self, novel: str, chapter: int, word: str, valence: float, places: Sequence[int]) -> int:
        """Counts a word at those positions that were not counted before.

        Returns:
            At how many; committed.
        """
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            new = sum(execute("INSERT OR IGNORE INTO counted VALUES (?)", (place,)).rowcount for place in places)
            if new:
                execute(
                    "INSERT INTO totals VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET times = times + excluded.times",
                    (novel, chapter, word, valence, new),
                )
        except BaseException:
            execute("ROLLBACK")
            raise
        execute("COMMIT")
        return new

    def close(self) -> None:
        """Closes the file; the totals stay."""
        self._connection.close()


class Totals(BasicBolt):
    """Adds up rated words by novel and chapter, each position in the text once."""

    def prepare(self, context: TaskContext) -> None:
        """Opens the task's totals, also after the task has moved."""
        self._context = context
        self._file = TotalsFile(totals_directory(directory()), context.task)

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        """Counts a word of a chapter; the tuple is acked when this returns."""
        places = tuple_["places"]
        new = self._file.add(tuple_["novel"], tuple_["chapter"], tuple_["word"], tuple_["valence"], places)
        self._context.count(COUNTED, new)
        self._context.count(REPEATED, len(places) - new)

    def cleanup(self) -> None:
        """Closes the totals."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class Total:
    """The number of occurrences of a rated word in a chapter."""

    novel: str
    chapter: int
    word: str
    valence: float
    times: int

    @property
    def score(self) -> float:
        """Its part of the chapter's score."""
        return self.valence * self.times


def totals_directory(directory: Path) -> Path:
    """The directory of the tasks' files."""
    return directory / "totals"


def read_totals(directory: Path) -> Iterator[Total]:
    """The totals of all tasks, running ones included."""
    for path in sorted(totals_directory(directory).glob("*.sqlite")):
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
            for row in connection.execute("SELECT novel, chapter, word, valence, times FROM totals"):
                yield Total(*row)
