"""State of the demo's tasks on disk, each in an SQLite file of its own.

A tuple is acked only after its effect was committed here, with the tuple's identity as the primary key. So the effect
is there once, whatever happens between commit and ack: a kill, a failure, a replay, or an old process that still has
the file open while its successor opens it.

With `synchronous=OFF` no commit waits for the disk. A killed process loses nothing by that: the kernel has what it
wrote. Only a machine that loses power could, and then the broker's log is gone with it.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

_BUSY_SECONDS: Final = 10.0


def _open(path: Path, table: str) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A task that moves is closed by one process and opened by another; for a moment both may have it open.
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level="IMMEDIATE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")
    return connection


class CountStore:
    """The words that one task of the count bolt has counted, each place in the text once."""

    def __init__(self, directory: Path, task: int) -> None:
        columns = "line INTEGER, position INTEGER, word TEXT NOT NULL, PRIMARY KEY (line, position)"
        self._connection = _open(directory / f"count-{task}.sqlite", f"counted ({columns}) WITHOUT ROWID")

    def add(self, words: Sequence[tuple[int, int, str]]) -> int:
        """Counts words by line, position in it, and word; when that is committed, returns how many were repeats."""
        with self._connection:  # commits, or rolls back
            new = self._connection.executemany("INSERT OR IGNORE INTO counted VALUES (?, ?, ?)", words).rowcount
        return len(words) - new

    def close(self) -> None:
        self._connection.close()


class LineStore:
    """The lines of one task of the spout that are acked."""

    def __init__(self, directory: Path, task: int) -> None:
        table = "acked (line INTEGER PRIMARY KEY, times INTEGER NOT NULL)"
        self._connection = _open(directory / f"lines-{task}.sqlite", table)

    def add(self, line: int) -> None:
        """Counts an ack of the line, to be kept by the next `commit`."""
        self._connection.execute("INSERT INTO acked VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1", (line,))

    def commit(self) -> None:
        """Lines that are acked together are one transaction."""
        self._connection.commit()

    def lines(self) -> set[int]:
        return {line for (line,) in self._connection.execute("SELECT line FROM acked")}

    def close(self) -> None:
        self.commit()
        self._connection.close()


def counted_words(directory: Path) -> Counter[str]:
    total: Counter[str] = Counter()
    for rows in _each(directory, "count-*.sqlite", "SELECT word, count(*) FROM counted GROUP BY word"):
        total.update(dict(rows))
    return total


def acked_lines(directory: Path, least: int = 1) -> int:
    """How many lines were acked, or at least so often."""
    query = "SELECT count(*) FROM acked WHERE times >= ?"
    return sum(count for ((count,),) in _each(directory, "lines-*.sqlite", query, least))


def _each(directory: Path, pattern: str, query: str, *values: int) -> Iterator[list[tuple[Any, ...]]]:
    """The answers of the files of all tasks, except files without a table yet."""
    for path in sorted(directory.glob(pattern)):
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                yield connection.execute(query, values).fetchall()
