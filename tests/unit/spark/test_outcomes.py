"""The outcomes of a spout: which messages are done, open or due again, against a plain model; waits for room."""

import random
import threading

import pytest

from spark_jobs.delivering import NOTHING, Delivered, SourceRoots
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
    columns,
    deliver,
    fail,
    taken,
)
from tests.waiting import eventually
from tuple_tree.control import ControlState
from tuple_tree.positions import MAX_OFFSET, Position


@pytest.fixture
def outcomes(clock: Clock) -> Outcomes:
    return Outcomes(SourceRoots(3, KEY, 8), LIMIT, RETRIES, 10.0, clock)


def test_outcomes_that_come_before_the_report_count(outcomes: Outcomes) -> None:
    def write() -> Delivered:
        ack(outcomes, Position(3, 1, 10), Position(3, 1, 12), Position(2, 1, 10))
        fail(outcomes, Position(3, 1, 11), message="no")
        assert (outcomes.acked, outcomes.failed, outcomes.ignored) == (0, 0, 1)
        assert outcomes.prefixes(50) == {0: Prefix(1, 40)}, "as far as the notices were read before"
        return NOTHING._replace(positions=columns(1, range(10, 20)))

    deliver(outcomes, 0, [0])
    outcomes.done(columns(0, [0]))
    outcomes.deliver(20, lambda: 40, lambda: False, write)
    assert (outcomes.acked, outcomes.failed, outcomes.ignored) == (2, 1, 1)
    assert (outcomes.outstanding, outcomes.due) == (7, 1)
    assert taken(outcomes) == {(1, 11): 1}
    assert outcomes.prefixes(50)[1] == Prefix(11, 40, ((12, 13),)), "what was read during the write is read again"


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


def test_repeated_deliveries_are_ignored(outcomes: Outcomes) -> None:
    outcomes.recovered(columns(0, [1, 2, 5]), mark=0)
    assert outcomes.most == 0, "those of an earlier process apart"
    deliver(outcomes, 0, [1, 2, 5, 6, 7])
    assert outcomes.outstanding == 5
    assert ack(outcomes, Position(3, 0, 1), Position(3, 0, 7)) == 2
    assert sum(outcomes.stats()["complete_latency"].values()) == 1, "not of what another process delivered"
    outcomes.forget_counts()
    assert outcomes.acked == 0


def test_a_prefix_has_the_mark_of_the_first_open_delivery_and_all_that_is_done_behind_it(outcomes: Outcomes) -> None:
    for mark, offsets in enumerate(([*range(10)], [*range(10, 20)], [*range(20, 30), *range(40, 50)]), start=1):
        deliver(outcomes, 0, offsets, mark=mark)
    outcomes.done(columns(0, range(12)))
    assert outcomes.prefixes(9) == {0: Prefix(12, 2, ((30, 40),))}
    outcomes.done(columns(0, [13, 14, *range(20, 30), 40, 49]))
    assert outcomes.prefixes(9) == {0: Prefix(12, 2, ((13, 15), (20, 41), (49, 50)))}, "with what is not in the log"
    outcomes.done(columns(0, range(12, 50)))
    assert outcomes.prefixes(9) == {0: Prefix(50, 9)}, "no message is open, so none has to be read again"


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


def test_messages_that_fail_again_and_again_hold_up_no_message_beyond_their_span(
    outcomes: Outcomes, clock: Clock
) -> None:
    deliver(outcomes, 0, range(20))
    fail(outcomes, *(Position(3, 0, offset) for offset in (0, 5, 15)))
    rounds = []
    for attempt, clock.now in enumerate((1.0, 2.0, 3.0)):
        rounds.append([offset for _, offset in taken(outcomes, span=10)])
        fail(outcomes, *(Position(3, 0, offset, attempt + 1) for offset in rounds[-1]))
    assert rounds == [[0, 5], [15], [0, 5]]


def test_messages_without_an_outcome_are_lost(outcomes: Outcomes, clock: Clock) -> None:
    deliver(outcomes, 0, [0])
    clock.now = 9.9
    outcomes.tick()
    deliver(outcomes, 0, [1])
    assert outcomes.lost == 0
    for offset, clock.now in ((0, 11.0), (1, 20.9)):
        outcomes.tick()
        assert outcomes.lost == offset + 1
        assert taken(outcomes) == {(0, offset): 1}
    assert (outcomes.stats()["failed"], outcomes.failed) == ({"lost": 2}, 0)
    assert ack(outcomes, Position(3, 0, 0), Position(3, 0, 1)) == 2
    assert outcomes.prefixes(3) == {0: Prefix(2, 3)}


def test_of_several_outcomes_of_a_message_each_counts_once(outcomes: Outcomes) -> None:
    deliver(outcomes, 0, range(4))
    assert fail(outcomes, Position(3, 0, 1), Position(3, 0, 2), Position(3, 0, 1, 3)) == 2
    assert taken(outcomes) == {(0, 1): 4, (0, 2): 1}
    assert ack(outcomes, Position(3, 0, 0), Position(3, 0, 0), Position(3, 0, 1), Position(3, 0, 9)) == 2
    assert sum(outcomes.stats()["complete_latency"].values()) == 1, "of the attempt that was acked, if it is the last"
    assert (outcomes.outstanding, outcomes.due) == (2, 0)


def check_against_a_model(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = Outcomes(SourceRoots(3, KEY, 8), 1_000_000, 63, 1e9, lambda: 0.0)
    open_: dict[At, int] = {}
    due: set[At] = set()
    log: dict[int, list[int]] = {}

    for _ in range(400):
        choice = rng.random()
        at = rng.choice(sorted(open_)) if open_ else None
        if choice < 0.3:
            partition = rng.randrange(3)
            start = log[partition][-1] + 1 if log.get(partition) else 0
            offsets = sorted(rng.sample(range(start, start + 20), rng.randrange(1, 10)))
            deliver(outcomes, partition, offsets)
            log.setdefault(partition, []).extend(offsets)
            open_.update({(partition, offset): 0 for offset in offsets})
        elif choice < 0.6 and at:
            assert ack(outcomes, Position(3, *at, rng.randrange(open_.pop(at) + 1)))
            due.discard(at)
        elif choice < 0.8 and at:
            assert bool(fail(outcomes, Position(3, *at, min(open_[at], 63)))) == (at not in due)
            due.add(at)
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
