"""What the demo's tasks keep on disk, each in an SQLite file of its own.

A tuple is acked only after its effect was committed here, with the tuple's identity as the primary key. So the effect
is there once, whatever happens between commit and ack: a kill, a failure, a replay, or an old process that still has
the file open while its successor opens it.

With `synchronous=OFF` no commit waits for the disk. A killed process loses nothing by that: the kernel has what it
wrote. Only a machine that loses power could, and then the broker's log is gone with it.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

_BUSY_SECONDS: Final = 10.0
_PAGES_BETWEEN_CHECKPOINTS: Final = 1000


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A task that moves is closed by one process and opened by another; for a moment both may have it open.
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_BETWEEN_CHECKPOINTS}")
    return connection


class CountStore:
    """The words that one task of the count bolt has counted."""

    def __init__(self, directory: Path, task: int) -> None:
        self._connection = _open(directory / f"count-{task}.sqlite")
        for table in (
            "counted (line INTEGER, position INTEGER, PRIMARY KEY (line, position))",
            "counts (word TEXT PRIMARY KEY, count INTEGER NOT NULL)",
        ):
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {table} WITHOUT ROWID")

    def add(self, words: Iterable[tuple[int, int, str]]) -> int:
        """Counts words by line, position in it, and word; when that is committed, returns how many were repeats."""
        execute = self._connection.execute
        new: Counter[str] = Counter()
        repeated = 0
        with self._connection:  # commits, or rolls back
            execute("BEGIN IMMEDIATE")
            for line, position, word in words:
                if execute("INSERT OR IGNORE INTO counted VALUES (?, ?)", (line, position)).rowcount:
                    new[word] += 1
                else:
                    repeated += 1
            self._connection.executemany(
                "INSERT INTO counts VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count", new.items()
            )
        return repeated

    def close(self) -> None:
        self._connection.close()


class LineStore:
    """The lines of one task of the spout that are acked."""

    def __init__(self, directory: Path, task: int) -> None:
        self._connection = _open(directory / f"lines-{task}.sqlite")
        self._connection.execute("CREATE TABLE IF NOT EXISTS acked (line INTEGER PRIMARY KEY, times INTEGER NOT NULL)")

    def add(self, line: int) -> None:
        """Counts an ack of the line, to be kept by the next `commit`."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO acked VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1", (line,))

    def commit(self) -> None:
        """Lines that are acked together are one transaction."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def lines(self) -> set[int]:
        return {line for (line,) in self._connection.execute("SELECT line FROM acked")}

    def close(self) -> None:
        self.commit()
        self._connection.close()


def counted_words(directory: Path) -> Counter[str]:
    total: Counter[str] = Counter()
    for connection in _each(directory, "count-*.sqlite", "counts"):
        total.update(dict(connection.execute("SELECT word, count FROM counts")))
    return total


def acked_lines(directory: Path, least: int = 1) -> int:
    """How many lines were acked, or at least so often."""
    query = "SELECT count(*) FROM acked WHERE times >= ?"
    files = _each(directory, "lines-*.sqlite", "acked")
    return sum(connection.execute(query, (least,)).fetchone()[0] for connection in files)


def _each(directory: Path, pattern: str, table: str) -> Iterator[sqlite3.Connection]:
    """The files of all tasks, without those that have no such table yet."""
    for path in sorted(directory.glob(pattern)):
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                yield connection
