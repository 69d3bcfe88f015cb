"""What the demo's tasks keep on disk: each task has one SQLite file of its own.

A tuple is acked only after its effect was committed here, and the effect carries the tuple's identity as a primary
key. So whatever happens between commit and ack (a kill, a failure, a replay, a zombie of a killed process that still
holds the file while its successor opens it) the effect is there once.

All words of a batch are one transaction: the write-ahead log turns a commit into one write, and with `synchronous=OFF`
nothing waits for the disk. A process that is killed loses nothing by that, since what it wrote is the kernel's already;
only a machine that loses power could, and then the broker's log is gone with it.
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
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS counted (line INTEGER, position INTEGER, PRIMARY KEY (line, position)) "
            "WITHOUT ROWID"
        )
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS counts (word TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID"
        )

    def add(self, words: Iterable[tuple[int, int, str]]) -> int:
        """Counts words by line, position in it, and word; when that is committed, returns how many were repeats."""
        execute = self._connection.execute
        new: Counter[str] = Counter()
        repeated = 0
        execute("BEGIN IMMEDIATE")
        try:
            for line, position, word in words:
                if execute("INSERT OR IGNORE INTO counted VALUES (?, ?)", (line, position)).rowcount:
                    new[word] += 1
                else:
                    repeated += 1
            self._connection.executemany(
                "INSERT INTO counts VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count", new.items()
            )
        except BaseException:
            execute("ROLLBACK")
            raise
        execute("COMMIT")
        return repeated

    def close(self) -> None:
        self._connection.close()


class LineStore:
    """The lines that one task of the spout knows to be fully processed."""

    def __init__(self, directory: Path, task: int) -> None:
        self._connection = _open(directory / f"lines-{task}.sqlite")
        self._connection.execute("CREATE TABLE IF NOT EXISTS acked (line INTEGER PRIMARY KEY, times INTEGER NOT NULL)")

    def add(self, line: int) -> None:
        """Notes that the line is acked, and how often; it is kept once `commit` was called."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO acked VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1", (line,))

    def commit(self) -> None:
        """Keeps what was noted: lines that are acked together cost one transaction."""
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
        for word, count in connection.execute("SELECT word, count FROM counts"):
            total[word] += count
    return total


def acked_lines(directory: Path, least: int = 1) -> int:
    """How many lines were acked, or at least so often."""
    query = "SELECT count(*) FROM acked WHERE times >= ?"
    files = _each(directory, "lines-*.sqlite", "acked")
    return sum(connection.execute(query, (least,)).fetchone()[0] for connection in files)


def _each(directory: Path, pattern: str, table: str) -> Iterator[sqlite3.Connection]:
    """The files of all tasks, but for those that are only just being made."""
    for path in sorted(directory.glob(pattern)):
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                yield connection
