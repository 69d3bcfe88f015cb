"""The verdict of a tree, and the positions of the tasks that have to ack."""

from dataclasses import replace

import pytest

from inspection.trace.output import verdict
from inspection.trace.tree import Status, build_tree
from tests.unit.inspection.forest import ROOT, Forest, line_of_words
from tuple_tree.messages import FailReason


def test_the_verdict_on_a_failed_tree_has_the_reason_and_the_open_tuple() -> None:
    forest = Forest(3, (ROOT,))
    line_of_words(forest, 3, stuck=1)
    open_ = forest.tuples[2]
    late = build_tree(forest.records(ROOT, failed=FailReason.TIMEOUT), {("count", 1): open_.offset})
    assert verdict(late) == (
        f"failed, timeout: 1 of 4 tuples, `count` task 1 has done all before offset {open_.offset}, but not that "
        f"(offset {open_.offset})"
    )
    forest.add_entry(ROOT, "fail", "count/1")
    failed = build_tree(forest.records(ROOT))
    assert (failed.status, failed.reason) == (Status.FAILED, FailReason.FAILED)
    assert [str(node.state) for node in failed.nodes].count("failed") == 1
    not_acked = "failed, by count/1 (no): 1 of 4 tuples, `count` task 1 failed offset"
    assert verdict(failed).startswith(not_acked)
    # It commits what it failed a moment later, so it does not wait in line.
    behind = build_tree(forest.records(ROOT), {("count", 1): open_.offset - 1})
    assert verdict(behind).startswith(not_acked)


def test_a_task_that_acked_later_tuples_is_not_behind() -> None:
    """A group's offset is that of the first tuple without an ack, so all later ones seem to be unread."""
    forest = Forest(3, (ROOT,))
    line_of_words(forest, 5, stuck=1)
    open_, later = forest.tuples[2].offset, forest.tuples[5].offset
    assert verdict(build_tree(forest.records(ROOT), {("count", 1): open_ - 1})) == (
        f"open: 1 of 6 tuples, `count` task 1 has acked a later one, at offset {later}, but not offset {open_} "
        f"(offset {open_})"
    )


def test_how_far_a_task_is() -> None:
    forest = Forest(9, (ROOT,))
    line_of_words(forest, 1, stuck=0)
    forest.tuples[1].offset = 1
    for committed, message in (
        ({}, "`count` task 0 has not acked offset"),
        ({("count", 0): 0}, "`count` task 0 lags by 1 record"),
        ({("count", 0): 1}, "`count` task 0 has done all before offset 1, but not that"),
        ({("count", 0): 9}, "`count` task 0 has committed beyond offset 1 without an ack of it"),
    ):
        assert message in verdict(build_tree(forest.records(ROOT), committed))


def test_missing_tuples_are_reported() -> None:
    forest = Forest(4, (ROOT,))
    line_of_words(forest, 3, stuck=1)
    records = forest.records(ROOT)
    records.nodes = [each for each in records.nodes if each.bolt == "split"]
    assert verdict(build_tree(records)).startswith("open: 1 of 1 tuple may be, `split` task 0 has not acked")
    forest.entries[ROOT] = [entry for entry in forest.entries[ROOT] if entry.kind != "init"]
    tree = build_tree(forest.records(ROOT), spouts=["lines"])
    assert (tree.status, tree.spout) == (Status.NO_INIT, "lines")
    assert verdict(tree).startswith("no init: 4 tuples and 3 entries of the ack log are of this root")


def test_which_tuple_failed_is_not_known_if_its_task_has_others() -> None:
    forest = Forest(5, (ROOT,))
    (line,) = forest.begin(ROOT, "split", 1)

    def states() -> list[str]:
        return sorted(str(node.state) for node in build_tree(forest.records(ROOT)).nodes)

    for _ in range(2):
        forest.emit((line,), "count", 0)
    forest.ack(line)
    forest.add_entry(ROOT, "fail", "count/0")
    assert states() == ["acked", "open", "open"]
    # One of a task in Spark, of all its tasks; both are known then.
    forest.add_entry(ROOT, "fail", "count/query-0")
    forest.add_entry(ROOT, "fail", "count/query-0")
    forest.entries[ROOT] = [entry for entry in forest.entries[ROOT] if entry.writer != "count/0"]
    assert states() == ["acked", "failed", "failed"]


@pytest.mark.parametrize(
    ("message", "state"),
    [("a tuple of split was not delivered: too large", "open"), ("a tuple of type A has no price", "failed")],
)
def test_a_child_that_was_not_delivered_fails_no_input_of_its_task(message: str, state: str) -> None:
    forest = Forest(6, (ROOT,))
    forest.begin(ROOT, "split", 1)
    forest.add_entry(ROOT, "fail", "split/0")
    entry = forest.entries[ROOT].pop()
    forest.entries[ROOT].append(replace(entry, message=message))
    assert [str(node.state) for node in build_tree(forest.records(ROOT)).nodes] == [state]
