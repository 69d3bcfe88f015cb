"""The status of a message of a spout's source, from what was read about it; no Kafka, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from inspection.dead_letters import DeadLetter
from inspection.trace.output import verdict
from inspection.trace.records import Node
from inspection.trace.records import State as TupleState
from inspection.trace.tree import Status, Tree
from tuple_tree.control import ControlState
from tuple_tree.done_sets import DoneSet
from tuple_tree.outcome_records import OutcomeRecord

ACKED: Final = "acked"
DEAD_LETTER: Final = "dead-letter"
_NOT_ACKED: Final = (TupleState.OPEN, TupleState.FAILED, TupleState.UNCLEAR)


class State(StrEnum):
    DONE = "done"  # acked, a dead letter, or skipped; it is not delivered again
    OPEN = "open"  # delivered, without an outcome yet
    WAITING = "waiting"  # its last attempt has failed, and another one follows
    UNREAD = "unread"  # its spout has not read it yet


_EMITS_NOTHING: Final[Mapping[State, tuple[ControlState, ...]]] = {
    State.UNREAD: ("paused", "draining", "stopped"),
    State.WAITING: ("paused", "stopped"),
}
"""State of a message → the requested states of the topology in which its spout does not emit it."""


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """A message of a spout's source.

    Attributes:
        key: its key; None if it has none, or is no longer in its topic.
        at_ms: the timestamp of its record, in milliseconds since the epoch; None if it is no longer in its topic.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    at_ms: int | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}[{self.partition}] offset {self.offset:,}"


@dataclass(frozen=True, slots=True)
class LastFailure:
    """The last failure of a message that is known.

    Attributes:
        reason: `failed` by a bolt, `timeout`, `too_old`, `lost`; or the reason of a dead letter.
        component: the component that failed it; None if that is not known, as of a timeout.
        message: the text of the failure, which may be empty.
        at_ms: when, in milliseconds since the epoch; None if that is not known.
    """

    reason: str
    component: str | None = None
    message: str = ""
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ComponentOfMessage:
    """A component that has tuples of a message which are not acked.

    Attributes:
        component: its name; of a chain, the head.
        tuples: how many; None if they are in a chain, which sends no record of them.
        since_ms: when the first of them was sent to it, in milliseconds since the epoch.
    """

    component: str
    tuples: int | None
    since_ms: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts that were read about a message of a source.

    Attributes:
        done: the commit of the spout's group for the partition; None if it has committed none.
        skipped_to: the spout's group has begun at this offset of the partition, or was reset to it.
        has_outcomes: whether the spout writes outcomes.
        outcome: its record in the topic of outcomes; of several, that with the latest end.
        letter: its dead letter.
        tree: the tree of its last attempt that the ack log has.
        failure: its last failure by the notices.
        chain: the bolts chained to the spout.
        begin: the first offset of the partition.
    """

    done: DoneSet | None
    skipped_to: int = 0
    has_outcomes: bool = False
    outcome: OutcomeRecord | None = None
    letter: DeadLetter | None = None
    tree: Tree | None = None
    failure: LastFailure | None = None
    chain: Sequence[str] = ()
    begin: int = 0
    requested: ControlState = "running"

    def is_done(self, offset: int) -> bool:
        """Whether the commit has a message as done."""
        done = self.done
        return done is not None and (offset < done.offset or any(begin <= offset < end for begin, end in done.runs))

    def failures(self, offset: int) -> int:
        """How often an open message has failed, by the commit."""
        return 0 if self.done is None else self.done.failures.get(offset, 0)


@dataclass(frozen=True, slots=True)
class MessageStatus:
    """The status of a message; times are milliseconds since the epoch.

    Attributes:
        topology, spout: which spout reads it.
        message: its position, key and time.
        state: whether it is done.
        outcome: of a message that is done: `acked`, `dead-letter` or `skipped`; None if it is not known which.
        attempt: which delivery is open, or was the last one, from 1 on; None if it is not known, or there was none.
        since_ms: when the state began: of a message that is done, its end; None if that is not known.
        components: those with tuples that are not acked, or were not when the last attempt failed.
        failure: its last failure, if one is known.
        ahead: of a message that is not read yet: how many messages of its partition are before it, at most.
        root: that of the tree of its last attempt, for `acker trace`; None if the ack log has none.
        trace: the verdict on that tree.
        dead_letter: the offset of its dead letter in `{topology}.dead-letters`.
        remarks: sentences about what is not known, and why.
    """

    topology: str
    spout: str
    message: SourceMessage
    state: State
    outcome: str | None = None
    attempt: int | None = None
    since_ms: int | None = None
    components: tuple[ComponentOfMessage, ...] = ()
    failure: LastFailure | None = None
    ahead: int | None = None
    root: int | None = None
    trace: str = ""
    dead_letter: int | None = None
    remarks: tuple[str, ...] = field(default=())

    @property
    def is_done(self) -> bool:
        """Whether it is acked, a dead letter, or skipped."""
        return self.state is State.DONE

    @property
    def is_dead_letter(self) -> bool:
        return self.outcome == DEAD_LETTER


def judge(topology: str, spout: str, message: SourceMessage, evidence: Evidence) -> MessageStatus:
    """The status of a message.

    It is done if the spout has committed it, it has an outcome, or a notice says that its last attempt is acked:
    facts that stay true, in whatever order they were read. Only a message that an operator has made open again, by a
    reset of the group's offsets, is not done although it has an outcome: then a later tree is open.
    """
    tree, outcome = evidence.tree, evidence.outcome
    is_done = evidence.is_done(message.offset)
    if outcome is not None and not is_done and _began_later(tree, outcome):
        remark = (
            f"it was {outcome.outcome} in an earlier delivery: the offsets of the group were reset since, or a process "
            "ended before the commit"
        )
        return _not_done(topology, spout, message, evidence, (remark,))
    is_acked = tree is not None and tree.status is Status.ACKED
    if is_done or outcome is not None or (is_acked and tree is not None and tree.outcomes):
        return _done(topology, spout, message, evidence)
    unreported = "all of its tuples are acked, and no acker has reported that yet: does an acker worker run?"
    status = _not_done(topology, spout, message, evidence, (unreported,) if is_acked else ())
    if evidence.requested in _EMITS_NOTHING.get(status.state, ()):
        remark = f"the topology is {evidence.requested}: acker topologies resume {topology}"
        return replace(status, remarks=(*status.remarks, remark))
    return status


def _began_later(tree: Tree | None, outcome: OutcomeRecord) -> bool:
    is_open = tree is not None and tree.status in (Status.OPEN, Status.FAILED)
    return is_open and tree is not None and tree.init is not None and tree.init.at_ms > outcome.end


def _done(topology: str, spout: str, message: SourceMessage, evidence: Evidence) -> MessageStatus:
    outcome, letter, tree = evidence.outcome, evidence.letter, evidence.tree
    dead_letter = None if letter is None else letter.offset
    common = {"root": None if tree is None else tree.root, "trace": "" if tree is None else verdict(tree)}
    if outcome is not None:
        failure = LastFailure(outcome.reason, outcome.component or None, outcome.failure) if outcome.reason else None
        return MessageStatus(
            *(topology, spout, message, State.DONE, outcome.outcome, outcome.attempts, outcome.end),
            failure=failure,
            dead_letter=dead_letter,
            **common,  # type: ignore[arg-type]
        )
    if letter is not None:
        failure = LastFailure(letter.reason, letter.component or None, letter.detail, letter.timestamp_ms)
        return MessageStatus(
            *(topology, spout, message, State.DONE, DEAD_LETTER, None, letter.timestamp_ms),
            failure=failure,
            dead_letter=dead_letter,
            **common,  # type: ignore[arg-type]
        )
    if tree is not None and tree.status is Status.ACKED:
        attempt, outcome_, failure = evidence.failures(message.offset) + 1, ACKED, evidence.failure
        if tree.dead_letters:
            by = tree.dead_letters[0]
            outcome_, failure = DEAD_LETTER, LastFailure("failed", by.source, by.preview, by.emitted_ms)
        return MessageStatus(
            *(topology, spout, message, State.DONE, outcome_, attempt, tree.ended_ms),
            failure=failure,
            **common,  # type: ignore[arg-type]
        )
    if message.offset < evidence.skipped_to:
        why = (
            f"`{spout}` has begun after it, at offset {evidence.skipped_to:,}, or was reset to that, so it has skipped "
            "this message, unless it has read it before the reset"
        )
        return MessageStatus(topology, spout, message, State.UNREAD, remarks=(why,))
    why = (
        "its outcome was not found: retention has deleted it, or the spout writes outcomes only since later"
        if evidence.has_outcomes
        else "acked, or skipped by translate: the spout writes no outcomes, and no dead letter is of it"
    )
    return MessageStatus(topology, spout, message, State.DONE, remarks=(why,))


def _not_done(
    topology: str, spout: str, message: SourceMessage, evidence: Evidence, remarks: tuple[str, ...]
) -> MessageStatus:
    tree, failures = evidence.tree, evidence.failures(message.offset)
    if tree is None:
        return _without_tree(topology, spout, message, evidence, remarks)
    has_failed = tree.status is Status.FAILED
    began_ms = tree.init.at_ms if tree.init is not None else None
    failure = evidence.failure
    if has_failed and failure is None:
        fail = tree.fails[0] if tree.fails else None
        reason = "failed" if tree.reason is None else tree.reason.word
        failure = LastFailure(reason, fail.component if fail else None, fail.message if fail else "", tree.ended_ms)
    return MessageStatus(
        *(topology, spout, message, State.WAITING if has_failed else State.OPEN),
        # A failure is committed within a second.
        attempt=max(1, failures) if has_failed else failures + 1,
        since_ms=tree.ended_ms if has_failed else began_ms,
        components=_components(tree),
        failure=failure,
        root=tree.root,
        trace=verdict(tree),
        remarks=remarks,
    )


def _without_tree(
    topology: str, spout: str, message: SourceMessage, evidence: Evidence, remarks: tuple[str, ...]
) -> MessageStatus:
    """The status of a message that is not done and has no tree in the ack log."""
    failures, chain = evidence.failures(message.offset), ", ".join(f"`{name}`" for name in evidence.chain)
    in_chain = (
        f"it may be in the chain of `{spout}` with {chain}, which has an entry in the ack log after a second"
        if chain
        else ""
    )
    if failures:
        state = State.OPEN if chain else State.WAITING
        none = f"the ack log has no tree of it; {in_chain}, or wait for a retry" if chain else ""
        return MessageStatus(
            *(topology, spout, message, state),
            attempt=failures + 1 if chain else failures,
            since_ms=None if evidence.failure is None else evidence.failure.at_ms,
            failure=evidence.failure,
            remarks=(*remarks, none) if none else remarks,
        )
    if evidence.done is not None and message.offset < evidence.done.known_to:
        # A spout emits the messages of a partition in order.
        none = in_chain or "its spout has ended since, and the next owner of the partition delivers it again"
        remark = f"later messages are done, so it was delivered; the ack log has no tree of it: {none}"
        return MessageStatus(topology, spout, message, State.OPEN, remarks=(*remarks, remark))
    if evidence.done is None:
        remarks = (*remarks, f"`{spout}` has not committed an offset of this partition, so it has not begun to read it")
    elif in_chain:
        remarks = (*remarks, f"the ack log has no tree of it; {in_chain}")
    return MessageStatus(
        topology, spout, message, State.UNREAD, ahead=_ahead(message.offset, evidence), remarks=remarks
    )


def _ahead(offset: int, evidence: Evidence) -> int:
    """How many messages before an offset are not done, at most: offsets may have none."""
    done = evidence.done or DoneSet(evidence.begin)
    begin = max(done.offset, evidence.begin)
    behind = sum(max(0, min(end, offset) - max(start, begin)) for start, end in done.runs)
    return max(0, offset - begin - behind)


def _components(tree: Tree) -> tuple[ComponentOfMessage, ...]:
    """The components with tuples that are not acked, the longest-waiting first."""
    nodes: dict[str, list[Node]] = {}
    for node in tree.having(*_NOT_ACKED):
        nodes.setdefault(node.bolt, []).append(node)
    found = [
        ComponentOfMessage(bolt, len(of_bolt), min(node.emitted_ms for node in of_bolt))
        for bolt, of_bolt in nodes.items()
    ]
    if tree.is_in_chain and tree.init is not None:
        found.append(ComponentOfMessage(tree.spout or "", None, tree.init.at_ms))
    return tuple(sorted(found, key=lambda each: (each.since_ms, each.component)))
