"""Every case of the acking rules, on the pure fold."""

import random
from functools import reduce
from operator import xor

import pytest

from tests.acking_cases import CASES, Case
from tests.unit.acker_worker.folding import SPOUT, Log, new_fold, outcomes


@pytest.mark.parametrize("root", [0, 1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
def test_case(case: Case, root: int) -> None:
    rng = random.Random(f"{case.script} {root}")
    ids = {edge: rng.getrandbits(64) for edge in "abc"}
    log, fold = Log(), new_fold()
    told = []
    for message in case.messages():
        val = reduce(xor, (ids[edge] for edge in message.edges), 0)
        match message.kind:
            case "T":
                log.tick()
                told += outcomes(fold.advance(log.now_ms))
                continue
            case "I":
                record = log.say(inits=[(root, val)])
            case "A":
                record = log.say(acks=[(root, val)])
            case "F":
                record = log.say(fails=[root])
            case _:
                record = log.say(resets=[root])
        told += outcomes(fold.apply([record]))
    assert told == [(SPOUT, root, outcome) for outcome in case.outcomes]


def test_orphan_leaves_by_rotation_and_is_counted() -> None:
    log, fold = Log(), new_fold()
    fold.apply([log.say(acks=[(7, 1)])])
    assert fold.ledger.orphans == 1
    log.tick(3)
    assert outcomes(fold.advance(log.now_ms)) == []
    assert len(fold.ledger) == 0
    assert fold.counters.orphans_expired == 1


def test_second_init_is_counted() -> None:
    log, fold = Log(), new_fold()
    fold.apply([log.say(inits=[(7, 1)]), log.say(inits=[(7, 1)])])
    assert fold.counters.duplicate_inits == 1
    assert fold.ledger.record(7) == (1, True, False)


def test_fail_carries_the_message_of_the_bolt_whichever_comes_first() -> None:
    log, fold = Log(), new_fold()
    first = fold.apply([log.say(inits=[(1, 5)]), log.say(fails=[1], message="disk full")])
    second = fold.apply([log.say(fails=[2], message="no route"), log.say(inits=[(2, 5)])])
    assert [failed for told in first.told.values() for failed in told.failed] == [(1, 1, "disk full")]
    assert [failed for told in second.told.values() for failed in told.failed] == [(2, 1, "no route")]


def test_walk_through_with_four_bit_ids() -> None:
    """Two spout tuples, one bolt tuple anchored to both; emit and ack folded into one message."""
    first, second, joined = 0b1010, 0b1011, 0b1100
    log, fold = Log(), new_fold()
    fold.apply([log.say(inits=[(first, first), (second, second)])])
    # The first bolt emits the joined tuple, anchored to both, then acks both.
    assert first ^ joined == 0b0110
    assert second ^ joined == 0b0111
    assert outcomes(fold.apply([log.say(acks=[(first, first ^ joined), (second, second ^ joined)])])) == []
    assert fold.ledger.record(first) == (joined, True, False)
    assert fold.ledger.record(second) == (joined, True, False)
    last = fold.apply([log.say(writer="c/0", acks=[(first, joined), (second, joined)])])
    assert sorted(outcomes(last), key=lambda told: told[1]) == [(SPOUT, first, "ack"), (SPOUT, second, "ack")]
    assert len(fold.ledger) == 0
