"""The status of a message from what was read about it, and its sentences."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inspection.dead_letters import DeadLetter
from inspection.message_status.output import duration, heading, key_as_text, sentences, status_as_json
from inspection.message_status.verdict import (
    Evidence,
    LastFailure,
    MessageStatus,
    SourceMessage,
    State,
    judge,
)
from inspection.trace.tree import Tree, build_tree
from tests.unit.inspection.forest import ROOT, SPOUT, Forest, line_of_words
from tuple_tree.control import ControlState
from tuple_tree.done_sets import DoneSet
from tuple_tree.messages import FailReason
from tuple_tree.outcome_records import OutcomeRecord

OFFSET = 20
MESSAGE = SourceMessage("orders", 3, OFFSET, b"ORDER-4711", 1_000)
BEFORE = DoneSet(OFFSET)
SEEN = DoneSet(OFFSET, ((OFFSET + 2, OFFSET + 5),))
COMMITTED = DoneSet(OFFSET + 1)
NOW_MS = 60_000


def judged(**evidence: Any) -> MessageStatus:
    return judge("shop", "lines", MESSAGE, Evidence(**{"done": BEFORE, **evidence}))


def outcome(word: Any = "acked", end: int = 5_000, **more: Any) -> OutcomeRecord:
    return OutcomeRecord("orders", 3, OFFSET, word, 2, 3_000, end, **more)


def tree(*, stuck: int | None = None, failed: FailReason | None = None, acked: bool = False) -> Tree:
    forest = Forest(3, (ROOT,))
    line_of_words(forest, 3, stuck=stuck)
    if failed is FailReason.FAILED:
        forest.add_entry(ROOT, "fail", "count/1")
    return build_tree(forest.records(ROOT, failed=failed, acked=acked), spouts=["lines"])


def lines(status: MessageStatus) -> list[str]:
    return [*sentences(status, NOW_MS)]


def test_a_message_that_is_committed_or_has_an_outcome_or_an_acked_tree_is_done() -> None:
    status = judged(done=COMMITTED, outcome=outcome(reason="failed", component="count", failure="no"))
    assert (status.state, status.outcome, status.attempt, status.since_ms) == (State.DONE, "acked", 2, 5_000)
    assert lines(status) == ["done: acked 1970-01-01 00:00:05 UTC, in attempt 2", "last failure: failed by `count`: no"]
    # Its offset is committed within a second.
    assert judged(outcome=outcome()).outcome == "acked"
    by_tree = judged(done=DoneSet(OFFSET, failures={OFFSET: 1}), tree=tree(acked=True))
    assert (by_tree.state, by_tree.outcome, by_tree.attempt, by_tree.root) == (State.DONE, "acked", 2, ROOT)
    assert by_tree.since_ms is not None
    # Without the notice of an acker its tuples may all be acked.
    unreported = judged(done=DoneSet(OFFSET), tree=tree())
    assert (unreported.state, unreported.outcome) == (State.OPEN, None)
    assert "no acker has reported that yet: does an acker worker run?" in lines(unreported)[-1]


def test_without_an_outcome_a_message_that_is_committed_is_acked_or_skipped() -> None:
    status = judged(done=COMMITTED)
    assert (status.state, status.outcome) == (State.DONE, None)
    assert lines(status) == [
        "done",
        "acked, or skipped by translate: the spout writes no outcomes, and no dead letter is of it",
    ]
    assert "its outcome was not found" in lines(judged(done=COMMITTED, has_outcomes=True))[1]
    assert lines(judged(outcome=outcome("skipped")))[0] == "done: skipped by translate 1970-01-01 00:00:05 UTC"


def test_a_message_before_the_beginning_of_its_group_is_not_read_unless_it_has_an_outcome() -> None:
    status = judged(done=COMMITTED, skipped_to=OFFSET + 1)
    assert (status.state, status.outcome, status.is_done) == (State.UNREAD, None, False)
    assert f"`lines` has begun after it, at offset {OFFSET + 1:,}" in lines(status)[-1]
    assert judged(done=COMMITTED, skipped_to=OFFSET).is_done
    assert judged(done=COMMITTED, skipped_to=OFFSET + 1, outcome=outcome()).is_done


def test_a_dead_letter_is_done_with_its_reason_and_position() -> None:
    letter = DeadLetter(17, 9_000, b"k", b"v", (), "orders", 3, OFFSET, "retries-exhausted", "all failed", "lines/0")
    status = judged(done=COMMITTED, letter=letter)
    assert (status.state, status.is_dead_letter, status.dead_letter, status.since_ms) == (State.DONE, True, 17, 9_000)
    assert lines(status) == [
        (
            "done: it became a dead letter 1970-01-01 00:00:09 UTC: retries-exhausted by `lines`: all failed; "
            "acker dead-letters show shop 17"
        )
    ]
    both = judged(done=COMMITTED, letter=letter, outcome=outcome("dead-letter", reason="retries-exhausted"))
    assert (both.attempt, both.dead_letter, both.is_dead_letter) == (2, 17, True)


def test_an_open_message_is_at_the_components_with_open_tuples() -> None:
    earlier = LastFailure("failed", "count", "sold out", 2_000)
    open_ = tree(stuck=1)
    status = judged(done=DoneSet(OFFSET, failures={OFFSET: 2}), tree=open_, failure=earlier)
    assert (status.state, status.attempt, status.root) == (State.OPEN, 3, ROOT)
    (at,) = status.components
    assert (at.component, at.tuples) == ("count", 1)
    assert at.since_ms in [node.emitted_ms for node in open_.nodes if node.bolt == "count"]
    first, second, third = lines(status)
    assert first == "open: attempt 3 at `count` since 1970-01-01 00:00:01 UTC, for 59 s"
    assert second.startswith(f"tree {ROOT:016x}: open: 1 of 4 tuples, `count` task 1 has not acked")
    assert third == "last failure: 1970-01-01 00:00:02 UTC, failed by `count`: sold out"


def test_a_message_whose_last_tree_failed_waits_for_a_retry() -> None:
    status = judged(tree=tree(stuck=1, failed=FailReason.FAILED))
    assert (status.state, status.attempt) == (State.WAITING, 1)
    assert status.failure is not None
    assert (status.failure.reason, status.failure.component, status.failure.message) == ("failed", "count", "no")
    assert lines(status)[0].startswith("waiting for a retry: attempt 1 failed 1970-01-01 00:00:01 UTC at `count`")
    late = judged(tree=tree(stuck=1, failed=FailReason.TIMEOUT), done=DoneSet(OFFSET, failures={OFFSET: 4}))
    # Where it was when the time was over.
    assert (late.state, late.attempt, late.components[0].component) == (State.WAITING, 4, "count")
    assert late.failure is not None
    assert late.failure.reason == "timeout"
    # The ack log may have been deleted since.
    old = judged(done=DoneSet(OFFSET, failures={OFFSET: 4}))
    assert (old.state, old.attempt, lines(old)) == (State.WAITING, 4, ["waiting for a retry: attempt 4 failed"])


def test_what_is_behind_all_that_is_done_and_has_no_tree_is_not_read_yet() -> None:
    status = judged(done=DoneSet(OFFSET - 9, ((OFFSET - 7, OFFSET - 4),)))
    assert (status.state, status.ahead) == (State.UNREAD, 6)
    assert lines(status) == ["not read yet: 6 messages of its partition before it"]
    assert lines(judged())[0] == "not read yet: it is the next message of its partition"
    never = judged(done=None, begin=OFFSET - 2)
    assert (never.state, never.ahead) == (State.UNREAD, 2)
    assert "has not committed an offset of this partition" in lines(never)[1]
    delivered = judged(done=SEEN)
    assert (delivered.state, delivered.attempt) == (State.OPEN, None)
    assert "the next owner of the partition delivers it again" in lines(delivered)[1]
    # Retention has deleted what is before.
    assert judged(done=DoneSet(3), begin=OFFSET - 1).ahead == 1


def test_a_message_of_a_paused_topology_follows_when_it_is_resumed() -> None:
    failed, open_ = tree(stuck=1, failed=FailReason.FAILED), tree(stuck=1)
    resume = "the topology is {}: acker topologies resume shop"
    states: list[tuple[ControlState, bool, bool]] = [
        ("running", False, False),
        ("paused", True, True),
        ("draining", True, False),
        ("stopped", True, True),
    ]
    for requested, unread, waits in states:
        remark = resume.format(requested)
        assert (remark in judged(requested=requested).remarks) == unread
        assert (remark in judged(requested=requested, tree=failed).remarks) == waits
        assert remark not in judged(requested=requested, tree=open_).remarks


def test_a_message_in_a_chain_may_have_no_tree() -> None:
    for done, state in (
        (BEFORE, State.UNREAD),
        (SEEN, State.OPEN),
        (DoneSet(OFFSET, failures={OFFSET: 1}), State.OPEN),
    ):
        status = judged(done=done, chain=("parse", "store"))
        assert status.state is state
        assert "in the chain of `lines` with `parse`, `store`" in lines(status)[1]
    forest = Forest(1, (ROOT,))
    forest.add_entry(ROOT, "init", "lines/0", forest.id(), SPOUT)
    held = build_tree(forest.records(ROOT), spouts=["lines"], chains={"lines": ("parse",)})
    (at,) = judged(tree=held, chain=("parse",)).components
    assert (at.component, at.tuples) == ("lines", None)


def test_a_message_that_is_delivered_again_after_its_outcome_is_open() -> None:
    """The offsets of the group were reset."""
    status = judged(outcome=outcome(end=10), tree=tree(stuck=1))
    assert (status.state, status.outcome) == (State.OPEN, None)
    assert "it was acked in an earlier delivery" in lines(status)[-1]
    # The tree of the delivery that has ended.
    assert judged(outcome=outcome(end=10_000), tree=tree(stuck=1)).is_done
    assert judged(done=COMMITTED, outcome=outcome(end=10), tree=tree(stuck=1)).is_done


@given(st.integers(0, 30), st.sets(st.integers(0, 60)), st.integers(0, 60), st.integers(0, 20))
def test_done_and_the_number_of_messages_ahead_are_those_of_the_commit(
    committed: int, behind: set[int], offset: int, begin: int
) -> None:
    done = {*range(committed), *behind}
    runs = [(at, at + 1) for at in sorted(behind) if at > committed]
    message = SourceMessage("orders", 0, offset)
    status = judge("shop", "lines", message, Evidence(DoneSet(committed, tuple(runs)), begin=begin))
    assert status.is_done == (offset in (done - {committed}))
    if status.state is State.UNREAD:
        assert status.ahead == len({*range(begin, offset)} - (done - {committed}))


def test_a_status_as_json_and_its_heading() -> None:
    status = judged(tree=tree(stuck=1), failure=LastFailure("timeout", None, "", 7))
    shown = status_as_json(status, NOW_MS)
    assert (shown["topic"], shown["partition"], shown["offset"], shown["key"]) == ("orders", 3, OFFSET, "ORDER-4711")
    assert (shown["state"], shown["outcome"], shown["attempt"], shown["root"]) == ("open", None, 1, f"{ROOT:016x}")
    assert shown["failure"] == {"reason": "timeout", "component": None, "message": "", "at_ms": 7}
    assert [each["component"] for each in shown["components"]] == ["count"]
    assert shown["sentences"] == lines(status)
    assert heading(status) == (
        "orders[3] offset 20, which `lines` of shop reads, key ORDER-4711, written 1970-01-01 00:00:01 UTC"
    )


def test_keys_and_durations_as_text() -> None:
    assert [key_as_text(key) for key in ("Bär".encode(), b"\xff\x00", b"\x1b[31m", b"")] == [
        *("Bär", "0xff00", "0x1b5b33316d", "")
    ]
    assert [duration(ms) for ms in (-5, 4_321, 59_000, 90_000, 7_200_000, 10**9)] == [
        *("0.0 s", "4.3 s", "59 s", "1.5 min", "2.0 h", "11.6 d")
    ]
