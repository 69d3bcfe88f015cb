"""`acker chaos`: what it draws by a seed, and what it finds wrong."""

from collections.abc import Set

import numpy as np
import pytest

from acker_cli.chaos.checks import FALSE_OUTCOME, LOST, OPEN, Facts
from acker_cli.chaos.faults import FaultKind, Faults
from acker_cli.chaos.sources import not_done
from acker_cli.chaos.tree_log import Trees
from tuple_tree.done_sets import DoneSet

DONE = DoneSet(4, runs=((6, 8), (9, 20)))


def test_equal_seeds_draw_equal_faults() -> None:
    hit: list[int] = []

    def kind(name: str) -> FaultKind:
        return FaultKind(name, (0.0, 1.0), lambda rng: lambda: hit.append(rng.getrandbits(32)))

    targets = [[kind(f"kill {of}"), kind(f"suspend {of}")] for of in "abc"]

    def drawn(seed: int) -> list[tuple[str, float, float, int]]:
        faults, found = Faults(seed, targets, 5.0), []
        for _ in range(20):
            fault = faults.next()
            fault.happen(lambda _seconds: None)
            found.append((fault.kind.name, fault.after, fault.seconds, hit[-1]))
        return found

    assert drawn(7) == drawn(7) != drawn(8)
    assert len({name for name, *_ in drawn(7)}) == 6
    assert all(0 <= after <= 10 for _, after, *_ in drawn(7))


@pytest.mark.parametrize(
    ("is_done", "is_acked", "is_letter", "outcomes", "is_skipped", "expected"),
    [
        (False, True, False, {"acked"}, False, ("", OPEN)),
        (True, True, False, None, False, ("acked", "")),
        (True, False, True, None, False, ("dead-letter", "")),
        (True, False, False, None, True, ("skipped", "")),
        (True, False, False, None, False, ("", LOST)),
        (True, None, False, None, False, ("", "")),  # at most once: nothing is known
        (True, True, False, {"acked"}, False, ("acked", "")),
        (True, None, False, {"acked"}, False, ("acked", "")),  # its tree has stayed in the chain
        (True, False, False, {"acked"}, False, ("acked", FALSE_OUTCOME)),
        (True, True, False, set(), True, ("", LOST)),
        (True, False, True, {"dead-letter"}, False, ("dead-letter", "")),
    ],
)
def test_what_is_wrong_with_a_message(
    is_done: bool, is_acked: bool | None, is_letter: bool, outcomes: Set[str] | None, is_skipped: bool, expected: object
) -> None:
    assert Facts(is_done, is_acked, is_letter, outcomes, lambda: is_skipped).judge() == expected


def test_trees_that_an_acker_acked_alone_or_without_a_notice_are_found() -> None:
    def roots(*each: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.array(each, np.uint64)

    trees = Trees(
        begun=roots(1, 2, 3, 4, 5),
        new=roots(2, 3, 4, 5),
        acked=roots(1, 2, 3, 4),
        acked_notices=roots(2, 5, 9),  # the init of 9 was deleted
        failed_notices=roots(4),
    )
    assert trees.false_acks.tolist() == [5]
    assert trees.without_notice.tolist() == [3], "that of 1 may have been deleted; 4 has expired by an idle clock"


@pytest.mark.parametrize("offsets", [range(4), range(2, 6), range(4, 9), range(7, 22), range(30, 30)])
def test_offsets_that_are_not_done_are_counted(offsets: range) -> None:
    assert not_done(offsets, DONE) == len(set(offsets) & {4, 5, 8, 20, 21})
