"""The outcomes of a spout: which messages are done, open or due again, against a plain model; waits for room."""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from spark_jobs.delivering import NOTHING, Delivered, SourceRoots
from spark_jobs.ended import Ended, Failed, Why
from spark_jobs.errors import StoppedBetweenBatches
from spark_jobs.message_table import Prefix
from spark_jobs.outcomes import Outcomes
from tests.seeds import each_seed
from tests.waiting import eventually
from tuple_tree.control import ControlState
from tuple_tree.errors import WireError
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.positions import MAX_OFFSET, Position, positional_root, topic_key

KEY = topic_key("GHbxwU_dQ5eLMDKfVpT7Vg")
LIMIT = 1_000
RETRIES = 2

At = tuple[int, int]
"""Partition and offset."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outcomes(clock: Clock) -> Outcomes:
    return Outcomes(SourceRoots(3, KEY, 8), LIMIT, RETRIES, 10.0, clock)


def roots(*positions: Position) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.array([positional_root(position, KEY, 8) for position in positions], np.uint64)


def columns(partition: int, offsets: Sequence[int]) -> Any:
    return np.array([partition * MAX_OFFSET + offset for offset in offsets], np.int64)


def deliver(outcomes: Outcomes, partition: int, offsets: Sequence[int], mark: int = 0, rows: int = 0) -> None:
    delivered = NOTHING._replace(positions=columns(partition, offsets))
    outcomes.deliver(rows, lambda: mark, lambda: False, lambda: delivered)


def counted(outcomes: Outcomes, batch: NoticeBatch, by: Sequence[str] = ()) -> int:
    """How many of the notices were not ignored."""
    before = outcomes.ignored
    outcomes.read(batch, by)
    return len(batch) - outcomes.ignored + before


def ack(outcomes: Outcomes, *positions: Position) -> int:
    return counted(outcomes, NoticeBatch(0, 0, acked_roots=roots(*positions)))


def fail(
    outcomes: Outcomes, *positions: Position, reason: FailReason = FailReason.FAILED, message: str = "", by: str = ""
) -> int:
    reasons, messages = np.full(len(positions), reason, np.uint8), (message,) * len(positions)
    failed = NoticeBatch(0, 0, failed_roots=roots(*positions), fail_reasons=reasons, fail_messages=messages)
    return counted(outcomes, failed, (by,) * len(positions))


def taken(outcomes: Outcomes, most: int = 10, span: int = 100) -> dict[At, int]:
    """The attempts of a round of replays."""
    replays = outcomes.take_due(most, span)
    if replays is None:
        return {}
    places = [divmod(position, MAX_OFFSET) for position in replays.positions.tolist()]
    return dict(zip(places, replays.attempts.tolist(), strict=True))


def test_outcomes_that_come_before_the_report_count(outcomes: Outcomes) -> None:
    def write() -> Delivered:
        failed = roots(Position(3, 1, 11))
        outcomes.read(
            NoticeBatch(
                0,
                0,
                acked_roots=roots(Position(3, 1, 10), Position(3, 1, 12), Position(2, 1, 10)),
                failed_roots=failed,
                fail_reasons=np.array([FailReason.FAILED], np.uint8),
                fail_messages=("no",),
            )
        )
        assert (outcomes.acked, outcomes.failed, outcomes.ignored) == (0, 0, 1)
        assert outcomes.prefixes(50) == {0: Prefix(1, 40)}, "as far as the notices were read before"
        return NOTHING._replace(positions=columns(1, range(10, 20)))

    deliver(outcomes, 0, [0])
    outcomes.done(columns(0, [0]))
    outcomes.deliver(20, lambda: 40, lambda: False, write)
    assert (outcomes.acked, outcomes.failed, outcomes.ignored) == (2, 1, 1)
    assert (outcomes.outstanding, outcomes.due) == (7, 1)
    assert taken(outcomes) == {(1, 11): 1}
    assert outcomes.prefixes(50)[1] == Prefix(11, 40, ((12, 13),)), (
        "outcomes that were read during the write are read again"
    )


def test_outcomes_of_unreported_deliveries_are_ignored(outcomes: Outcomes) -> None:
    def write() -> Delivered:
        assert ack(outcomes, Position(3, 1, 10))
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        outcomes.deliver(20, lambda: 0, lambda: False, write)
    assert (outcomes.acked, outcomes.ignored, outcomes.outstanding) == (0, 1, 0)


def test_a_micro_batch_waits_for_room(outcomes: Outcomes) -> None:
    deliver(outcomes, 0, range(600), rows=600)
    entered = threading.Event()

    def write() -> Delivered:
        entered.set()
        return NOTHING

    thread = threading.Thread(target=outcomes.deliver, args=(600, lambda: 0, lambda: False, write))
    thread.start()
    outcomes.done(columns(0, range(199)))
    assert outcomes.outstanding == 401
    assert not entered.is_set()
    outcomes.done(columns(0, [199]))
    eventually(entered.is_set, "room for 600 of 1,000")
    thread.join()
    with pytest.raises(StoppedBetweenBatches):
        outcomes.deliver(601, lambda: 0, lambda: True, write)


def test_a_thousand_notices_are_columns(clock: Clock) -> None:
    outcomes = Outcomes(SourceRoots(3, KEY, 8), 10_000, RETRIES, 10.0, clock)
    for partition in range(2):
        deliver(outcomes, partition, range(5_000))
    each = [Position(3, number % 2, number // 2) for number in range(10_000)]
    assert ack(outcomes, *each) == 10_000
    assert outcomes.idle
    assert ack(outcomes, *each) == 0
    assert (outcomes.acked, outcomes.ignored) == (10_000, 10_000)
    assert sum(outcomes.stats()["complete_latency"].values()) == 10_000
    assert outcomes.prefixes(9) == {0: Prefix(5_000, 9), 1: Prefix(5_000, 9)}


def test_repeated_deliveries_are_ignored(outcomes: Outcomes) -> None:
    outcomes.recovered(columns(0, [1, 2, 5]), mark=0)
    assert outcomes.most == 0, "those of an earlier process apart"
    deliver(outcomes, 0, [1, 2, 5, 6, 7])
    assert outcomes.outstanding == 5
    assert ack(outcomes, Position(3, 0, 1), Position(3, 0, 7)) == 2
    assert sum(outcomes.stats()["complete_latency"].values()) == 1, "not of what another process delivered"
    outcomes.forget_counts()
    assert outcomes.acked == 0


def test_the_mark_of_a_prefix_is_that_of_the_first_open_delivery(outcomes: Outcomes) -> None:
    deliver(outcomes, 0, range(10), mark=1)
    deliver(outcomes, 0, range(10, 20), mark=2)
    deliver(outcomes, 0, range(20, 30), mark=3)
    outcomes.done(columns(0, range(12)))
    assert outcomes.prefixes(9) == {0: Prefix(12, 2)}
    outcomes.done(columns(0, range(12, 30)))
    assert outcomes.prefixes(9) == {0: Prefix(30, 9)}, "no message is open, so none has to be read again"


def test_what_is_done_behind_the_first_open_message_is_part_of_the_prefix(outcomes: Outcomes) -> None:
    deliver(outcomes, 0, [*range(10), *range(20, 30)], mark=1)
    outcomes.done(columns(0, [0, 1, 3, 4, 20, 29]))
    assert outcomes.prefixes(9) == {0: Prefix(2, 1, ((3, 5), (10, 21), (29, 30)))}, "with what is not in the log"


def test_failures_become_due_under_the_next_attempt(outcomes: Outcomes) -> None:
    deliver(outcomes, 0, range(3))
    assert fail(outcomes, Position(3, 0, 1), message="no")
    assert not fail(outcomes, Position(3, 0, 1)), "a repeat"
    assert (outcomes.outstanding, outcomes.due) == (2, 1)
    assert taken(outcomes) == {(0, 1): 1}
    assert (outcomes.outstanding, outcomes.due) == (3, 0)
    assert not fail(outcomes, Position(3, 0, 1)), "of an attempt that was given up"
    assert fail(outcomes, Position(3, 0, 1, 1))
    assert fail(outcomes, Position(3, 0, 1, 4)), "of an attempt of an earlier process"
    assert ack(outcomes, Position(3, 0, 1)), "an earlier attempt was acked meanwhile"
    assert taken(outcomes) == {}
    assert not fail(outcomes, Position(3, 0, 1, 9)), "it is done"
    assert not fail(outcomes, Position(3, 5, 1)), "never delivered"
    assert ack(outcomes, Position(3, 0, 0), Position(3, 0, 2)) == 2
    outcomes.prefixes(0)
    assert not fail(outcomes, Position(3, 0, 1, 9)), "nothing is open"
    assert not ack(outcomes, Position(3, 0, 1))


def test_what_has_no_attempt_left_is_given_up_with_the_last_reason(outcomes: Outcomes) -> None:
    deliver(outcomes, 1, range(4))
    for attempt in range(RETRIES + 1):
        assert fail(outcomes, Position(3, 1, 1, attempt), message=f"no {attempt}")
        assert fail(outcomes, Position(3, 1, 2, attempt), message="no" if attempt < RETRIES else "")
        replays = outcomes.take_due(10, 10)
        assert replays is not None
        given_up = replays.given_up
        assert bool(given_up) == (attempt == RETRIES)
    why = f"all {RETRIES + 1} attempts failed, the last one with reason failed"
    assert given_up == {MAX_OFFSET + 1: f"{why}: no {RETRIES}", MAX_OFFSET + 2: why}


def test_a_round_takes_the_offsets_within_its_span(outcomes: Outcomes) -> None:
    deliver(outcomes, 0, range(1000))
    deliver(outcomes, 1, range(1000))
    assert taken(outcomes) == {}
    fail(outcomes, *(Position(3, 0, offset) for offset in (900, 5, 30, 104, 105)))
    fail(outcomes, *(Position(3, 1, offset) for offset in (500, 900)))
    assert taken(outcomes) == {}, "there is no room"
    outcomes.done(columns(1, range(500)))
    outcomes.done(columns(0, range(200, 800)))
    assert list(taken(outcomes)) == [(0, 5), (0, 30), (0, 104), (1, 500)]
    each = [list(taken(outcomes, most=1, span=1000)) for _ in range(4)]
    assert each == [[(0, 105)], [(1, 900)], [(0, 900)], []], "no partition starves"


def test_messages_without_an_outcome_are_lost(outcomes: Outcomes, clock: Clock) -> None:
    deliver(outcomes, 0, [0])
    clock.now = 9.9
    outcomes.tick()
    deliver(outcomes, 0, [1])
    assert outcomes.lost == 0
    clock.now = 11.0
    outcomes.tick()
    assert outcomes.lost == 1
    assert taken(outcomes) == {(0, 0): 1}
    clock.now = 20.9
    outcomes.tick()
    assert outcomes.lost == 2
    assert taken(outcomes) == {(0, 1): 1}
    assert outcomes.stats()["failed"] == {"lost": 2}
    assert outcomes.failed == 0
    assert ack(outcomes, Position(3, 0, 0), Position(3, 0, 1)) == 2
    assert outcomes.prefixes(3) == {0: Prefix(2, 3)}


def test_of_several_outcomes_of_a_message_each_counts_once(outcomes: Outcomes, clock: Clock) -> None:
    clock.now = 7.0
    deliver(outcomes, 0, range(4))
    assert fail(outcomes, Position(3, 0, 1), Position(3, 0, 2), Position(3, 0, 1, 3)) == 2
    assert taken(outcomes) == {(0, 1): 4, (0, 2): 1}
    assert ack(outcomes, Position(3, 0, 0), Position(3, 0, 0), Position(3, 0, 1), Position(3, 0, 9)) == 2
    latencies = outcomes.stats()["complete_latency"]
    assert sum(latencies.values()) == 1, "of the attempt that was acked, if it is the last one"
    assert (outcomes.outstanding, outcomes.due) == (2, 0)


def check_against_a_model(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = Outcomes(SourceRoots(3, KEY, 8), 1_000_000, 63, 1e9, lambda: 0.0)
    open_: dict[At, int] = {}
    due: set[At] = set()
    log: dict[int, list[int]] = {}

    def one_of_the_open(change: Callable[[At], None]) -> None:
        if open_:
            change(rng.choice(sorted(open_)))

    def acked(at: At) -> None:
        assert ack(outcomes, Position(3, *at, rng.randrange(open_[at] + 1)))
        del open_[at]
        due.discard(at)

    def failed(at: At) -> None:
        assert bool(fail(outcomes, Position(3, *at, min(open_[at], 63)))) == (at not in due)
        due.add(at)

    for _ in range(400):
        choice = rng.random()
        if choice < 0.3:
            partition = rng.randrange(3)
            start = log[partition][-1] + 1 if log.get(partition) else 0
            offsets = sorted(rng.sample(range(start, start + 20), rng.randrange(1, 10)))
            deliver(outcomes, partition, offsets)
            log.setdefault(partition, []).extend(offsets)
            open_.update({(partition, offset): 0 for offset in offsets})
        elif choice < 0.6:
            one_of_the_open(acked)
        elif choice < 0.8:
            one_of_the_open(failed)
        else:
            for at, attempt in taken(outcomes, rng.randrange(5), rng.randrange(1, 30)).items():
                due.remove(at)
                open_[at] += 1
                assert attempt == open_[at]
        assert (outcomes.outstanding, outcomes.due) == (len(open_) - len(due), len(due))
        for number, prefix in outcomes.prefixes(0).items():
            mine = [offset for partition, offset in open_ if partition == number]
            assert prefix.offset == (min(mine) if mine else log[number][-1] + 1)


def test_against_a_model() -> None:
    each_seed(check_against_a_model)


@pytest.mark.parametrize(
    ("state", "delivers", "replays"),
    [("running", True, True), ("draining", False, True), ("paused", False, False), (None, False, False)],
)
def test_messages_are_delivered_as_the_requested_state_allows(
    outcomes: Outcomes, state: ControlState | None, delivers: bool, replays: bool
) -> None:
    deliver(outcomes, 0, [0])
    fail(outcomes, Position(3, 0, 0))
    outcomes.control = state
    if delivers:
        deliver(outcomes, 0, [1])
    else:
        with pytest.raises(StoppedBetweenBatches):
            outcomes.deliver(1, lambda: 0, lambda: True, lambda: NOTHING)
    assert bool(taken(outcomes)) == replays
    stats = outcomes.stats()
    assert (stats["control"], stats["retrying"]) == ([state or "unknown"], 0 if replays else 1)


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
            for begin, end in prefix.runs:
                self.outcomes.done(columns(number, range(begin, end)))
        self.taken: list[Ended] = []

    def step(self) -> None:
        self.rng.choice([self.deliver, self.end_some, self.look, self.look, self.take, self.write, self.commit])()

    def deliver(self) -> None:
        number, count = self.rng.randrange(3), self.rng.randrange(1, 20)
        begin = self.planned[number]
        self.planned[number] += count
        deliver(self.outcomes, number, range(begin, begin + count), mark=self.read)

    def end_some(self) -> None:
        """Some trees are acked, or fail; each message has one that is acked in the end."""
        every = [(number, offset) for number, end in self.planned.items() for offset in range(end)]
        some = roots(*(Position(3, *at, self.rng.randrange(3)) for at in self.rng.sample(every, len(every) // 4)))
        if self.rng.random() < 0.7:
            self.notices.append(NoticeBatch(0, 0, acked_roots=some))
        else:
            reasons = np.full(len(some), FailReason.FAILED, np.uint8)
            texts = ("no",) * len(some)
            self.notices.append(NoticeBatch(0, 0, failed_roots=some, fail_reasons=reasons, fail_messages=texts))

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
    every = [(number, offset) for number, end in driver.planned.items() for offset in range(end)]
    driver.notices.append(NoticeBatch(0, 0, acked_roots=roots(*(Position(3, *at) for at in every))))
    while not driver.outcomes.idle:
        for step in (driver.look, driver.take, driver.write):
            step()
    driver.commit()
    assert driver.written == set(every)
    assert driver.committed == {number: Prefix(end, driver.read) for number, end in driver.planned.items() if end}


def test_what_is_committed_has_outcomes_whenever_a_driver_is_killed() -> None:
    each_seed(check_kills)
