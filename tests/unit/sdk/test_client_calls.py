"""A client matches delivery reports, answers and outcomes, in whatever order they come."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk.client.calls import Answered, Call, Calls, Ended
from tuple_tree.outcome_records import OutcomeRecord


def outcome(partition: int, offset: int, attempts: int = 1) -> OutcomeRecord:
    return OutcomeRecord("orders", partition, offset, "acked", attempts, 0, 0)


@dataclass
class Message:
    """A message of this client or of another one, and the records about it, in order; its last tree was acked."""

    partition: int
    offset: int
    is_ours: bool
    roots: list[int]
    records: list[Answered | Ended] = field(default_factory=list)
    settled: list[tuple[OutcomeRecord, bytes | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.call = Call(lambda *outcome: self.settled.append(outcome))

    @property
    def answer(self) -> bytes | None:
        """The last answer of the tree that was acked; None if its root was used again after it."""
        answers = [each.value for each in self.records if isinstance(each, Answered) and each.root == self.roots[-1]]
        return answers[-1] if answers else None


@st.composite
def messages(draw: st.DrawFn) -> list[Message]:
    """Messages with few offsets, in several partitions, so that they are easily taken for each other."""
    places = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=8, unique=True))
    found, root = [], 0
    for partition, offset in places:
        attempts = draw(st.integers(1, 3))
        message = Message(partition, offset, draw(st.booleans()), [*range(root, root + attempts)])
        root += attempts
        answered = draw(st.lists(st.sampled_from(message.roots), max_size=4))
        # Without a value: an attempt begins that has the root of an earlier one.
        values = [None if draw(st.integers(0, 3)) == 0 else b"%d" % number for number in range(len(answered))]
        message.records = [Answered(offset, each, value) for each, value in zip(answered, values, strict=True)]
        message.records.append(Ended(outcome(partition, offset, attempts), message.roots[-1]))
        if draw(st.booleans()):  # a spout that was killed writes another outcome
            message.records.append(Ended(outcome(partition, offset, attempts + 1), message.roots[-1]))
        found.append(message)
    return found


@given(messages(), st.data())
def test_each_call_gets_the_outcome_of_its_message_and_the_last_answer_of_the_tree_that_was_acked(
    sent: list[Message], data: st.DataObject
) -> None:
    calls, steps = Calls(), []
    # The reports of the producer, and the records of each message, are in an order of their own.
    for message in sent:
        records = [("read", message, each) for each in message.records]
        steps.append([("begin", message, None), *records] if message.is_ours else records)
    reports = [message for message in sent if message.is_ours]
    begun: set[int] = set()
    while any(steps) or reports:
        ready = [each for each in reports if id(each) in begun]
        choices: list[Any] = [*filter(None, steps), *ready]
        chosen = data.draw(st.sampled_from(range(len(choices))))
        if isinstance(choice := choices[chosen], Message):
            reports.remove(choice)
            calls.reported(choice.call, choice.partition, choice.offset)
            continue
        kind, message, record = choice.pop(0)
        if kind == "begin":
            begun.add(id(message))
            calls.begin(message.call)
        else:
            calls.read(record)
    for message in sent:
        expected = [(outcome(message.partition, message.offset, len(message.roots)), message.answer)]
        assert message.settled == (expected if message.is_ours else [])
    assert (len(calls), calls.kept) == (0, 0)


def test_a_call_that_has_ended_is_not_settled_and_leaves_nothing() -> None:
    settled: list[object] = []
    calls = Calls()
    early, late = (Call(lambda *outcome: settled.append(outcome)) for _ in range(2))
    calls.begin(early)
    calls.begin(late)
    calls.reported(late, 0, 5)
    calls.end(late)
    calls.end(early)  # before its report
    calls.reported(early, 0, 6)
    for offset in (5, 6):
        calls.read(Answered(offset, offset, b"1"))
        calls.read(Ended(outcome(0, offset), offset))
    assert (settled, len(calls), calls.kept) == ([], 0, 0)


def test_records_are_kept_only_for_messages_that_were_sent_before_and_are_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spout_sdk.client.calls.MOST_KEPT", 2)
    calls = Calls()
    first, second = (Call(lambda *_: None) for _ in range(2))
    for step, kept in (
        (partial(calls.read, Ended(outcome(0, 1), 1)), 0),
        (partial(calls.begin, first), 0),
        (partial(calls.read, Ended(outcome(0, 2), 2)), 1),
        (partial(calls.begin, second), 1),
        (partial(calls.read, Answered(3, 3, b"1")), 2),
        (partial(calls.reported, first, 1, 0), 1),
        (partial(calls.reported, second, 1, 1), 0),
    ):
        step()
        assert (calls.kept, calls.is_full) == (kept, kept == 2)


def test_answers_whose_values_are_large_hold_up_reading() -> None:
    calls = Calls()
    call = Call(lambda *_: None)
    calls.begin(call)
    calls.read(Answered(3, 3, bytes(65 * 2**20)))
    assert calls.is_full
    calls.end(call)
    assert not calls.is_full
