"""Messages of a spout that have ended: they are done when their outcomes are delivered, also if drivers are killed."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from spark_jobs.delivering import NOTHING, SourceRoots
from spark_jobs.ended import Ended, Failed, Why
from spark_jobs.errors import StoppedBetweenBatches
from spark_jobs.message_table import Prefix
from spark_jobs.outcomes import Outcomes
from tests.seeds import each_seed
from tests.unit.spark.outcomes_rig import (
    KEY,
    LIMIT,
    RETRIES,
    At,
    Clock,
    ack,
    acks,
    columns,
    deliver,
    fail,
    fails,
    roots,
    taken,
)  # fmt: skip
from tuple_tree.errors import WireError
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.positions import MAX_OFFSET, Position


@pytest.fixture
def writing(clock: Clock) -> Outcomes:
    """Whose outcomes are written."""
    return Outcomes(SourceRoots(3, KEY, 8), LIMIT, RETRIES, 10.0, clock, writes_outcomes=True)


def names(ended: Sequence[Ended]) -> list[At]:
    return [divmod(position, MAX_OFFSET) for each in ended for position in each.positions.tolist()]


def test_a_message_that_has_ended_gives_room_and_is_done_when_its_outcome_is_delivered(writing: Outcomes) -> None:
    deliver(writing, 0, range(LIMIT), mark=1)
    assert ack(writing, *(Position(3, 0, offset) for offset in range(600)))
    assert (writing.outstanding, writing.ended) == (400, 600)
    deliver(writing, 0, range(LIMIT, LIMIT + 500), mark=2, rows=600)
    assert writing.prefixes(9) == {0: Prefix(0, 1)}, "no outcome is delivered"
    assert not ack(writing, Position(3, 0, 5)), "once only"
    assert not fail(writing, Position(3, 0, 5, 7)), "it has ended"
    (ended,) = writing.take_ended(10, 0.0)
    assert (ended.outcome, names([ended])) == ("acked", [(0, offset) for offset in range(600)])
    assert writing.take_ended(10, 0.0) == []
    writing.done(columns(0, [0, 1, 3]))
    assert writing.prefixes(9) == {0: Prefix(2, 1, ((3, 4),))}
    assert writing.ended == 597
    writing.done(columns(0, range(LIMIT + 500)))
    assert writing.idle


def test_no_micro_batch_begins_while_too_many_outcomes_wait(writing: Outcomes) -> None:
    deliver(writing, 0, range(LIMIT))
    deliver(writing, 1, [0])
    ack(writing, Position(3, 1, 0), *(Position(3, 0, offset) for offset in range(LIMIT)))
    with pytest.raises(StoppedBetweenBatches):
        writing.deliver(1, lambda: 0, lambda: True, lambda: NOTHING)
    assert not writing.idle, "a spout that ends when all is done waits for the outcomes"
    assert len(names(writing.take_ended(10, 0.0))) == LIMIT + 1
    writing.done(columns(1, [0]))
    deliver(writing, 1, [1])


def test_what_has_ended_has_its_attempts_and_its_last_failure(writing: Outcomes, clock: Clock) -> None:
    deliver(writing, 0, range(6))
    fail(writing, Position(3, 0, 1), Position(3, 0, 2), message="no", by="charge/1")
    fail(writing, Position(3, 0, 3), Position(3, 0, 4), reason=FailReason.TIMEOUT)
    assert ack(writing, Position(3, 0, 2)), "before it is delivered again"
    assert set(taken(writing)) == {(0, 1), (0, 3), (0, 4)}
    ack(writing, Position(3, 0, 0), Position(3, 0, 1, 1), Position(3, 0, 3))
    clock.now = 11.0
    writing.tick()
    assert taken(writing) == {(0, 4): 2, (0, 5): 1}
    first = 5 + columns(0, [0])[0]
    writing.dead({int(first): WireError("bad-payload", "no JSON"), int(first) - 1: WireError("gone", "not there")})
    before, acked, dead = writing.take_ended(100, 0.0)
    failed = Failed("charge/1", "no")
    assert (names([before]), before.attempts.tolist(), before.why) == ([(0, 2)], [1], {2: Why("failed", failed)})
    assert (names([acked]), acked.attempts.tolist()) == ([(0, 0), (0, 1), (0, 3)], [1, 2, 2])
    assert acked.why == {1: Why("failed", failed), 3: Why("timeout", Failed())}
    assert (dead.outcome, names([dead]), dead.attempts.tolist()) == ("dead-letter", [(0, 4), (0, 5)], [2, 1])
    assert dead.why == {4: Why("gone", Failed(), "not there"), 5: Why("bad-payload", Failed(), "no JSON")}
    assert all((each.first_emit <= each.end).all() for each in (before, acked, dead))


def test_a_message_with_a_dead_letter_in_its_tree_ends_as_one(writing: Outcomes) -> None:
    deliver(writing, 0, range(3))
    marked = roots(Position(3, 0, 1))
    writing.read(NoticeBatch(0, 0, marked_roots=marked, mark_messages=("no such item",), marked_by=("price/2",)))
    ack(writing, Position(3, 0, 0), Position(3, 0, 2))
    dead, acked = writing.take_ended(10, 0.0)
    assert (dead.outcome, names([dead]), dead.attempts.tolist()) == ("dead-letter", [(0, 1)], [1])
    assert dead.why == {1: Why("failed", Failed("price/2", "no such item"))}
    assert (acked.outcome, names([acked])) == ("acked", [(0, 0), (0, 2)])
    assert (writing.acked, writing.outstanding) == (3, 0)


def test_a_message_that_was_never_delivered_well_has_no_failure(writing: Outcomes) -> None:
    deliver(writing, 0, range(2))
    writing.dead({0: WireError("bad-payload", "no JSON")})
    (dead,) = writing.take_ended(1, 0.0)
    assert (dead.attempts.tolist(), dead.why) == ([1], {0: Why("bad-payload", None, "no JSON")})


class Driver:
    """A driver with its group and its topics, which is killed between any two steps."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.notices: list[NoticeBatch] = []
        self.committed: dict[int, Prefix] = {}
        self.written: set[At] = set()
        self.planned = dict.fromkeys(range(3), 0)
        self.start()

    def start(self) -> None:
        self.outcomes = Outcomes(SourceRoots(3, KEY, 8), 10_000, 63, 1e9, lambda: 0.0, writes_outcomes=True)
        begins = {number: self.committed.get(number, Prefix(0, 0)) for number in self.planned}
        self.read = min(each.mark for each in begins.values())
        left = [columns(number, range(begins[number].offset, end)) for number, end in self.planned.items()]
        self.outcomes.recovered(np.concatenate(left), self.read)
        for number, prefix in begins.items():
            for run in prefix.runs:
                self.outcomes.done(columns(number, range(*run)))
        self.taken: list[Ended] = []

    def step(self) -> None:
        self.rng.choice([self.deliver, self.end_some, self.look, self.look, self.take, self.write, self.commit])()

    def every(self) -> list[At]:
        return [(number, offset) for number, end in self.planned.items() for offset in range(end)]

    def deliver(self) -> None:
        number, count = self.rng.randrange(3), self.rng.randrange(1, 20)
        begin = self.planned[number]
        self.planned[number] += count
        deliver(self.outcomes, number, range(begin, begin + count), mark=self.read)

    def end_some(self) -> None:
        """Some trees are acked, or fail; each message has one that is acked in the end."""
        some = self.rng.sample(self.every(), len(self.every()) // 4)
        positions = [Position(3, *at, self.rng.randrange(3)) for at in some]
        self.notices.append(acks(*positions) if self.rng.random() < 0.7 else fails(*positions, message="no"))

    def look(self) -> None:
        if self.read < len(self.notices):
            self.outcomes.read(self.notices[self.read])
            self.read += 1

    def take(self) -> None:
        """The writer takes some when it has written the last ones."""
        self.taken = self.taken or self.outcomes.take_ended(self.rng.randrange(1, 10), 0.0)

    def write(self) -> None:
        self.written.update(names(self.taken))
        for each in self.taken if self.rng.random() < 0.7 else ():
            self.outcomes.done(each.positions)
            self.taken = self.taken[1:]

    def commit(self) -> None:
        self.committed |= self.outcomes.prefixes(self.read)
        for number, prefix in self.committed.items():
            done = [range(prefix.offset), *(range(*run) for run in prefix.runs)]
            assert {(number, offset) for run in done for offset in run} <= self.written


def check_kills(seed: int) -> None:
    rng = random.Random(seed)
    driver = Driver(rng)
    for _ in range(150):
        driver.step()
        if rng.random() < 0.03:
            driver.start()
    driver.notices.append(acks(*(Position(3, *at) for at in driver.every())))
    while not driver.outcomes.idle:
        for step in (driver.look, driver.take, driver.write):
            step()
    driver.commit()
    assert driver.written == set(driver.every())
    assert driver.committed == {number: Prefix(end, driver.read) for number, end in driver.planned.items() if end}


def test_what_is_committed_has_outcomes_whenever_a_driver_is_killed() -> None:
    each_seed(check_kills)
