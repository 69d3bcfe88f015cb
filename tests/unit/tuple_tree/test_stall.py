"""When work without progress counts as a stall."""

from tuple_tree.timing import Stall


def test_a_stall_counts_from_the_last_progress_while_there_is_work() -> None:
    stall = Stall(patience_s=30)
    assert [stall.seconds(now, 1) for now in (0, 30, 31, 90)] == [0, 0, 1, 60]
    assert stall.seconds(91, 2) == 0, "something was done"
    assert stall.seconds(151, 2, has_work=True) == 30
    assert stall.seconds(152, 2, has_work=False) == 0
    assert stall.seconds(182, 2) == 0, "work that has just come"
    assert stall.seconds(183, 2) == 1
