"""The messages of a source against a simple model, a dictionary of their states; owners crash at any event."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tuple_tree.commit_metadata import LARGEST_METADATA
from tuple_tree.done_sets import DoneSet
from tuple_tree.messages import FailReason, Failure
from tuple_tree.positions import MAX_OFFSET
from tuple_tree.retry_queues import PROMPT
from tuple_tree.source_commits import SourceCommit
from tuple_tree.source_messages import Begun, SourceMessages
from tuple_tree.source_partition import MOST_RESERVED, OwnedPartition, SourcePartition

LOGS = ([0, 1, 2, 5, 6, 7, 8, 30], [3, 4, 5, 2_000, 2_001])
"""The offsets of messages of two partitions; the gaps are markers of transactions."""
ENDS = [31, 2_002]
MOST_FAILURES = 40
LIMIT = 8
MOST_OWNERS = 3  # their attempts do not wrap around
NEW, OPEN, WAITING, READING, DUE, REJECTED, ENDED, DONE = range(8)


def delay(failures: int) -> float | None:
    return None if failures > MOST_FAILURES else 0.5 * failures


def is_in(done: DoneSet, offset: int) -> bool:
    return offset < done.offset or any(begin <= offset < end for begin, end in done.runs)


class Source(RuleBasedStateMachine):
    """Commits are kept as text; the model has `state` and `failures` of each message by its key."""

    @initialize(is_transactional=st.booleans())
    def begin(self, is_transactional: bool) -> None:
        self.is_transactional = is_transactional
        # An earlier owner has emitted nothing but messages that fail.
        made = SourceCommit(DoneSet(0, failures={1: 7, 2: 7, 6: 7, 7: 7, 8: MOST_FAILURES}), 0, 0, 9).made()
        self.commits: dict[int, tuple[int, str]] = {0: (made.offset, made.metadata)}
        self.owners = 0
        self.used: set[tuple[int, int]] = set()  # partition and attempt id of emits
        self.now = 100.0
        self.own()

    def own(self) -> None:
        """A new owner continues from what is committed."""
        self.owners += 1
        self.messages = SourceMessages(delay)
        self.state = {n * MAX_OFFSET + each: NEW for n, log in enumerate(LOGS) for each in log}
        self.failures: Counter[int] = Counter()
        self.own_failures: Counter[int] = Counter()
        self.open_kinds: dict[int, int] = {}
        self.undelivered: dict[int, int] = {}  # records about messages that have ended
        for number, end in enumerate(ENDS):
            found = SourceCommit.read(*self.commits[number]) if number in self.commits else None
            start = 0 if found is None else found.offset
            named = SourcePartition("source", number)
            each = OwnedPartition(
                *(named, number, 0, 0, start, end, found), is_replayed=True, is_transactional=self.is_transactional
            )
            self.reserve(each)
            self.messages.add(each)
            if found is not None:
                failed = found.done.failures.items()
                self.failures |= Counter({number * MAX_OFFSET + offset: count for offset, count in failed})
                done = (number * MAX_OFFSET + offset for offset in LOGS[number] if is_in(found.done, offset))
                self.state |= dict.fromkeys(done, DONE)

    def reserve(self, each: OwnedPartition) -> None:
        self.write(each, each.reservation)
        each.reserved()

    def write(self, each: OwnedPartition, commit: SourceCommit) -> None:
        made = commit.made()
        self.commits[each.number] = made.offset, made.metadata

    def partition(self, key: int) -> OwnedPartition:
        return self.messages.at(key)[0]

    def keys(self, state: int) -> list[int]:
        return [key for key, each in self.state.items() if each == state]

    def some(self, data: Any, state: int) -> list[int]:
        found = self.keys(state)
        return data.draw(st.lists(st.sampled_from(found), unique=True, min_size=1, max_size=5)) if found else []

    def emitted(self, key: int) -> None:
        each, offset = self.messages.at(key)
        commit = SourceCommit.read(*self.commits[each.number])
        assert offset < commit.emitted_to, "a later owner knows that it may be open"
        used = each.number, each.attempt_id(offset)
        assert used not in self.used or self.own_failures[key] >= MOST_RESERVED, "no root is used twice"
        self.used.add(used)
        self.state[key] = OPEN

    # Events

    @rule(number=st.sampled_from(range(2)), most=st.integers(1, 5), together=st.booleans())
    def emit(self, number: int, most: int, together: bool) -> None:
        self.emit_new(number, most, together)

    def emit_new(self, number: int, most: int, together: bool) -> None:
        (each,) = (each for each in self.messages if each.number == number)
        offsets = [offset for offset in LOGS[number] if offset >= each.read_to][:most]
        if together and offsets:
            offsets = [offset for at, offset in enumerate(offsets) if offset == offsets[0] + at]
        if not offsets:
            each.skip_to(ENDS[number])
            return
        each.buffered_to = max(each.buffered_to, offsets[-1] + 1)
        if offsets[-1] >= each.may_emit_to:
            each.reserve(offsets[-1] + 1, self.now)
            self.reserve(each)
        if together and each.start_run(offsets[0], offsets[-1] + 1):
            begun = offsets
        else:
            begun = [offset for offset in offsets if each.start(offset)]
        for key in (each.first_key + offset for offset in begun):
            assert self.state[key] == NEW
            self.messages.begun[key] = Begun(b"", 7)
            self.emitted(key)

    @precondition(lambda self: self.keys(OPEN))
    @rule(data=st.data(), has_outcomes=st.booleans())
    def ack(self, data: Any, has_outcomes: bool) -> None:
        keys = self.some(data, OPEN)
        if not has_outcomes:
            self.end(keys)
            return
        for key in keys:
            begun, failed = self.messages.ended(key, 2)
            assert (begun, failed.failures) == (Begun(b"", 7), self.failures[key])
            self.open_kinds.pop(key, None)
            self.state[key], self.undelivered[key] = ENDED, 2

    def end(self, keys: Iterable[int]) -> None:
        self.messages.done([*keys])
        for key in keys:
            self.state[key] = DONE
            self.open_kinds.pop(key, None)

    @precondition(lambda self: self.keys(ENDED))
    @rule(data=st.data())
    def deliver(self, data: Any) -> None:
        for key in self.some(data, ENDED):
            self.messages.delivered(key)
            self.undelivered[key] -= 1
            if not self.undelivered[key]:
                self.state[key] = DONE

    @precondition(lambda self: self.keys(OPEN))
    @rule(data=st.data(), reason=st.sampled_from(FailReason))
    def fail(self, data: Any, reason: FailReason) -> None:
        for key in self.some(data, OPEN):
            self.messages.failed(key, Failure(reason), self.now)
            self.failures[key] += 1
            self.own_failures[key] += 1
            self.open_kinds.pop(key, None)
            self.state[key] = WAITING

    @precondition(lambda self: self.keys(WAITING))
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 5.0, 50.0]))
    def read(self, data: Any, seconds: float) -> None:
        self.now += seconds
        wanted = self.messages.next_round(self.now)
        for at, offsets in wanted.items():
            assert offsets == sorted(offsets)
            for key in (at.partition * MAX_OFFSET + offset for offset in offsets):
                assert self.state[key] == WAITING
                if not data.draw(st.integers(0, 3)):
                    self.messages.postpone(key, self.now)
                elif self.messages.read_again(key, "record"):
                    assert self.failures[key] > MOST_FAILURES
                    self.state[key] = REJECTED
                else:
                    self.state[key] = DUE

    @precondition(lambda self: self.keys(DUE))
    @rule(calls=st.integers(1, 6), has_new=st.booleans())
    def emit_again(self, calls: int, has_new: bool) -> None:
        taken = self.messages.take_due(calls, LIMIT, has_new=has_new)
        assert len(taken) <= calls
        for key, record in taken:
            each, offset = self.messages.at(key)
            failed = each.failed[offset]
            assert (self.state[key], record) == (DUE, "record")
            if not each.has_attempt(failed):
                self.reserve(each)
                assert each.has_attempt(failed)
            self.emitted(key)
            self.messages.emitted_again(key)
            if failed.kind != PROMPT:
                self.open_kinds[key] = failed.kind
        quarantined = Counter(self.open_kinds.values())
        assert all(count <= LIMIT // 4 for count in quarantined.values()), "these leave trees to others"

    @precondition(lambda self: self.keys(REJECTED))
    @rule(data=st.data())
    def deliver_dead_letters(self, data: Any) -> None:
        self.end(self.some(data, REJECTED))

    @rule()
    def commit(self) -> None:
        for at, made in self.messages.commits(LARGEST_METADATA).items():
            self.commits[at.partition] = made.offset, made.metadata
        self.messages.committed()

    @rule()
    def trim(self) -> None:
        self.messages.trim()

    @precondition(lambda self: self.owners < MOST_OWNERS)
    @rule()
    def crash(self) -> None:
        self.own()

    # What holds

    @invariant()
    def nothing_open_is_committed(self) -> None:
        for number, (offset, metadata) in self.commits.items():
            done = SourceCommit.read(offset, metadata).done
            for each in LOGS[number]:
                assert not is_in(done, each) or self.state[number * MAX_OFFSET + each] == DONE

    @invariant()
    def commits_have_what_is_done_and_has_failed(self) -> None:
        for each in self.messages:
            done = each.commit.done
            for offset in LOGS[each.number]:
                key = each.first_key + offset
                assert is_in(done, offset) == (self.state[key] == DONE)
                assert done.failures.get(offset, 0) == (0 if self.state[key] == DONE else self.failures[key])

    @invariant()
    def the_most_failed_is_one_that_is_not_done(self) -> None:
        if (found := self.messages.most_failed) is not None:
            assert self.state[found[0]] != DONE
            assert found[1].failures == self.failures[found[0]]

    def teardown(self) -> None:
        """In the end, each message is done."""
        if not hasattr(self, "messages"):
            return
        for _ in range(60):
            self.now += 100.0
            for number in range(2):
                self.emit_new(number, 10, False)
            for at, offsets in self.messages.next_round(self.now).items():
                for key in (at.partition * MAX_OFFSET + offset for offset in offsets):
                    self.state[key] = REJECTED if self.messages.read_again(key, "record") else DUE
            for key, _ in self.messages.take_due(10, 4 * len(self.state), has_new=True):
                self.messages.emitted_again(key)
                self.state[key] = OPEN
            self.end([*self.keys(OPEN), *self.keys(REJECTED)])
            while self.messages.undelivered:
                self.messages.delivered(next(iter(self.messages.undelivered)))
        assert not self.messages.open_count
        assert [(each.commit.offset, [*each.commit.done.runs]) for each in self.messages] == [(end, []) for end in ENDS]
        assert not self.messages.waiting
        assert not self.messages.is_due(self.now)


def test_messages_are_where_the_events_have_put_them() -> None:
    examples = max(10, settings.default.max_examples // 10)  # type: ignore[union-attr]
    run_state_machine_as_test(Source, settings=settings(max_examples=examples, stateful_step_count=80, deadline=None))
