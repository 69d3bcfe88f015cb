"""Every case of the acking rules, on the pure fold."""

import random
from typing import Any

import pytest

from acker_worker.fold import PartitionFold
from tests.ack_log import SETTINGS, SPOUT, Log, new_fold, outcomes
from tests.acking_cases import CASES, Case

KINDS = {"I": "inits", "A": "acks", "M": "marks", "F": "fails", "R": "resets"}


def played(case: Case, root: int) -> list[str]:
    """The outcomes that the spout receives when the messages of a case arrive."""
    rng = random.Random(f"{case.script} {root}")
    ids = {edge: rng.getrandbits(64) for edge in "abc"}
    log, fold = Log(), new_fold()
    notified = []
    for message in case.messages():
        if message.kind == "T":
            log.tick()
            notified += outcomes(fold.advance(log.now_ms))
        else:
            kind = KINDS[message.kind]
            entries: Any = [root if kind in ("fails", "resets") else (root, message.val(ids))]
            notified += outcomes(fold.apply([log.send(**{kind: entries})]))
    assert {(spout, notified_root) for spout, notified_root, _ in notified} <= {(SPOUT, root)}
    return [outcome for _, _, outcome in notified]


@pytest.mark.parametrize("root", [0, 1, 2**63, 2**64 - 1])
def test_cases(root: int) -> None:
    assert {case.script: played(case, root) for case in CASES} == {case.script: [*case.outcomes] for case in CASES}


def test_a_fail_has_the_message_of_the_bolt_in_any_order() -> None:
    log, fold = Log(), new_fold()
    steps = [
        fold.apply([log.send(inits=[(1, 5)]), log.send(fails=[1], message="disk full")]),
        # Cut, so that many fit into a notice.
        fold.apply([log.send(fails=[2], message="x" * 400_000), log.send(inits=[(2, 5)])]),
    ]
    failed = [each for step in steps for notified in step.outcomes.values() for each in notified.failed]
    assert failed == [(1, 1, "disk full", "b/0"), (2, 1, "x" * 500, "b/0")]


def test_a_mark_has_the_message_of_the_bolt_also_after_a_rebuild() -> None:
    log, begun = Log(), new_fold()
    begun.apply([log.send(inits=[(1, 5 ^ 9)], acks=[(1, 5 ^ 3)]), log.send(marks=[(1, 3)], message="no such item")])
    rebuilt = PartitionFold(0, 1, SETTINGS, begun.progress)
    for fold, records in ((begun, []), (rebuilt, [*log.records])):
        step = fold.apply([*records, log.send(acks=[(1, 9)])])
        assert [each.marked for each in step.outcomes.values()] == [[(1, "no such item", "b/0")]]
        (notice,) = step.outcomes[SPOUT].notices(0, 7)
        assert notice.marked_roots.tolist() == [1]
        assert (notice.mark_messages, notice.marked_by) == (("no such item",), ("b/0",))
