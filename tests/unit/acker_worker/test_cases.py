"""Every case of the acking rules, on the pure fold."""

import random

import pytest

from tests.acking_cases import CASES, Case
from tests.unit.acker_worker.folding import SPOUT, Log, new_fold, outcomes


def played(case: Case, root: int) -> list[str]:
    """The outcomes that the spout receives when the messages of a case arrive."""
    rng = random.Random(f"{case.script} {root}")
    ids = {edge: rng.getrandbits(64) for edge in "abc"}
    log, fold = Log(), new_fold()
    notified = []
    for message in case.messages():
        val = message.val(ids)
        match message.kind:
            case "T":
                log.tick()
                notified += outcomes(fold.advance(log.now_ms))
                continue
            case "I":
                record = log.send(inits=[(root, val)])
            case "A":
                record = log.send(acks=[(root, val)])
            case "F":
                record = log.send(fails=[root])
            case _:
                record = log.send(resets=[root])
        notified += outcomes(fold.apply([record]))
    assert {(spout, notified_root) for spout, notified_root, _ in notified} <= {(SPOUT, root)}
    return [outcome for _, _, outcome in notified]


@pytest.mark.parametrize("root", [0, 1, 2**63, 2**64 - 1])
def test_cases(root: int) -> None:
    assert {case.script: played(case, root) for case in CASES} == {case.script: [*case.outcomes] for case in CASES}


def test_a_fail_has_the_message_of_the_bolt_in_any_order() -> None:
    log, fold = Log(), new_fold()
    first = fold.apply([log.send(inits=[(1, 5)]), log.send(fails=[1], message="disk full")])
    second = fold.apply([log.send(fails=[2], message="x" * 400_000), log.send(inits=[(2, 5)])])
    assert [failed for notified in first.outcomes.values() for failed in notified.failed] == [
        (1, 1, "disk full", "b/0")
    ]
    # Cut, so that many fit into a notice.
    assert [failed for notified in second.outcomes.values() for failed in notified.failed] == [(2, 1, "x" * 500, "b/0")]
