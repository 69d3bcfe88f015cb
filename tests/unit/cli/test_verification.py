"""The verdict on a word count that runs as services."""

from collections import Counter
from pathlib import Path

import pytest

from acker_cli.demo.stores import CountStore, LineStore
from acker_cli.demo.verification import Verification

WORDS = ("a", "b", "a")
"""One a line."""


class World:
    """A clock that moves when somebody rests, and what is done meanwhile."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 0.0
        self.said: list[str] = []
        self.todo: list[int] = []
        self.seconds_a_line = 0.5

    def process(self, line: int) -> None:
        counts, acked = CountStore(self.directory, 0), LineStore(self.directory, 0)
        counts.add(line, 0, WORDS[line])
        acked.add(line)
        counts.close()
        acked.close()

    def pause(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        if self.todo and self.now // self.seconds_a_line > before // self.seconds_a_line:
            self.process(self.todo.pop(0))

    def verified(self, patience: float = 10.0) -> bool:
        return Verification(
            self.directory, len(WORDS), Counter(WORDS), patience, self.said.append, lambda: self.now, self.pause
        ).run()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_count_that_is_over_is_judged_at_once(world: World) -> None:
    for line in range(len(WORDS)):
        world.process(line)
    assert world.verified()
    assert world.now == 0
    assert world.said == [
        "3 of 3 lines acked, 0 of them more than once",
        "counts match: 3 words, 2 distinct, each as often as in a plain count of the text",
    ]


def test_one_that_goes_on_is_waited_for_as_long_as_it_moves(world: World) -> None:
    world.todo = [0, 1, 2]
    world.seconds_a_line = 8.0
    assert world.verified()
    assert world.now == 24.0
    assert world.said[0] == "0 of 3 lines acked"


def test_one_that_stands_is_given_up(world: World) -> None:
    world.process(0)
    assert not world.verified()
    assert world.now == 10.5
    assert "no line was acked for 10 s" in "\n".join(world.said)
    assert world.said[-2] == "1 of 3 lines acked, 0 of them more than once"


def test_where_nothing_ever_begins_it_is_given_up(world: World) -> None:
    assert not world.verified()
    assert world.said[-1].startswith("counts differ: 0 of 3 words")


def test_a_line_that_is_acked_twice_is_wrong(world: World) -> None:
    for line in (0, 1, 2, 1):
        world.process(line)
    assert not world.verified()
    assert world.said[-2] == "3 of 3 lines acked, 1 of them more than once"
    assert world.said[-1].startswith("counts match")


def test_a_word_too_many_is_wrong(world: World) -> None:
    for line in range(len(WORDS)):
        world.process(line)
    store = CountStore(world.directory, 1)
    store.add(7, 0, "b")
    store.close()
    assert not world.verified()
    assert world.said[-1].startswith("counts differ")
