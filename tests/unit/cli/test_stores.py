"""The demo's files: no kill loses a count that was acked, no replay counts twice."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from acker_cli.demo.stores import CountStore, LineStore, acked_lines, counted_words, lines_acked_again

# Counts words as fast as it can, and says after each commit how many it has.
_COUNTING = """
import sys
from pathlib import Path
from acker_cli.demo.stores import CountStore
store = CountStore(Path(sys.argv[1]), 0)
line = int(sys.argv[2])
while True:
    for position in range(9):
        store.add(line, position, f"word{(line + position) % 50}")
    print(line, flush=True)
    line += 1
"""


def test_a_place_in_the_text_counts_once(tmp_path: Path) -> None:
    store = CountStore(tmp_path, 0)
    assert store.add(1, 0, "a")
    assert not store.add(1, 0, "a")
    assert store.add(1, 1, "a")
    assert store.add(2, 0, "b")
    store.close()
    assert counted_words(tmp_path) == Counter({"a": 2, "b": 1})


def test_tasks_are_added_up(tmp_path: Path) -> None:
    for task in (0, 1):
        store = CountStore(tmp_path, task)
        store.add(task, 0, "same")
        store.close()
    assert counted_words(tmp_path) == Counter({"same": 2})


def test_nothing_is_counted_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "count-0.sqlite").touch()
    (tmp_path / "lines-0.sqlite").touch()
    assert counted_words(tmp_path) == Counter()
    assert acked_lines(tmp_path) == 0


def test_lines_are_done_once(tmp_path: Path) -> None:
    store = LineStore(tmp_path, 1)
    for line in (3, 5, 3):
        store.add(line)
    assert store.lines() == {3, 5}
    assert acked_lines(tmp_path) == 2
    assert lines_acked_again(tmp_path) == 1
    store.close()
    again = LineStore(tmp_path, 1)
    assert again.lines() == {3, 5}
    again.close()


def test_a_successor_works_beside_a_zombie(tmp_path: Path) -> None:
    """A task that moves is opened by its new process before the old one, which may be stopped for long, lets go."""
    zombie, successor = CountStore(tmp_path, 0), CountStore(tmp_path, 0)
    assert zombie.add(1, 0, "a")
    assert not successor.add(1, 0, "a")
    assert successor.add(1, 1, "a")
    assert not zombie.add(1, 1, "a")
    zombie.close()
    assert successor.add(2, 0, "a")
    successor.close()
    assert counted_words(tmp_path) == Counter({"a": 3})


def test_two_processes_on_one_file_wait_for_each_other(tmp_path: Path) -> None:
    stores = [CountStore(tmp_path, 0) for _ in range(2)]
    for store in stores:
        store.close()
    failures: list[sqlite3.Error] = []

    def count() -> None:
        try:
            store = CountStore(tmp_path, 0)
            for line in range(300):
                store.add(line, 0, "a")
            store.close()
        except sqlite3.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert counted_words(tmp_path) == Counter({"a": 300})


@pytest.mark.parametrize("lines_before_kill", [1, 40, 700])
def test_what_was_committed_survives_sigkill(tmp_path: Path, lines_before_kill: int) -> None:
    """A process is killed amid its work, twice; its successor repeats from before the kill, as a replay would."""
    line = 0
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", _COUNTING, str(tmp_path), str(line)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        ) as process:
            assert process.stdout is not None
            first = line
            while line < first + lines_before_kill:
                line = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
        counted = counted_words(tmp_path)
        acked = Counter(f"word{(n + position) % 50}" for n in range(line + 1) for position in range(9))
        assert all(counted[word] >= count for word, count in acked.items()), "an acked word is lost"

    with closing(sqlite3.connect(tmp_path / "count-0.sqlite")) as killed:
        ((last,),) = killed.execute("SELECT max(line) FROM counted")
    store = CountStore(tmp_path, 0)
    end = last + 2  # beyond whatever the killed process had got to
    for n in range(end):
        for position in range(9):
            store.add(n, position, f"word{(n + position) % 50}")
    store.close()
    expected = Counter(f"word{(n + position) % 50}" for n in range(end) for position in range(9))
    assert counted_words(tmp_path) == expected
