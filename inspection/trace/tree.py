"""The tree of a root, as far as it can be known."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from inspection.trace.families import MOST_DIMENSIONS, Basis, Family, checksum, find_families
from inspection.trace.records import Delivery, Kind, LogEntry, Outcome, RootRecords
from tuple_tree.messages import FailReason

Committed = Mapping[tuple[str, int], int]
"""Bolt and task → the offset that its consumer group has committed; without those of which that is not known."""

_KINDS: Final[tuple[Kind, ...]] = ("init", "ack", "fail", "reset")
"""The order in which an acker applies the entries of a batch."""
_TWICE: Final = 2
_CLOCK_MS: Final = 1_000
"""How far the clocks of two components may differ where the order of their tuples is used."""


class State(StrEnum):
    ACKED = "acked"
    OPEN = "open"
    UNCLEAR = "unclear"  # its task has sent acks that could not be distinguished


class Status(StrEnum):
    ACKED = "acked"
    FAILED = "failed"
    OPEN = "open"
    NO_INIT = "no init"  # no spout gets its outcome: its init is not in the part of the ack log that was read


class Origin(StrEnum):
    """How it is known whose child a tuple is."""

    REPORTED = "reported"  # the init or its parent's ack holds its edge
    INFERRED = "inferred"  # only one tuple can be its parent
    AMBIGUOUS = "ambiguous"  # several can
    UNREPORTED = "unreported"
    """All that could be its parent were acked without it: its emitter was interrupted, and began again."""


@dataclass(frozen=True, slots=True)
class Node:
    delivery: Delivery  # first copy in the inbox
    offsets: tuple[int, ...]  # of all copies; more than one if it was sent again
    state: State  # what became of it
    acks: tuple[LogEntry, ...]  # those that hold its edge, in their order; more than one if it was executed again
    origin: Origin  # how its parents are known
    parents: tuple[int, ...]  # indices in `Tree.nodes`; none if it comes from the spout, or that is not known
    committed: int | None  # of its bolt's consumer group in this inbox; None if that is not known

    @property
    def behind(self) -> int | None:
        """How many records before it the group has not done; negative if it has done this one too."""
        return None if self.committed is None else self.delivery.offset - self.committed


@dataclass(frozen=True, slots=True)
class Tree:
    root: int
    spout: str | None  # the component that began it; None if that is not known
    init: LogEntry | None  # as the acker applied it
    nodes: tuple[Node, ...]  # all its tuples, in the order in which they were emitted
    entries: tuple[LogEntry, ...]  # all entries of the ack log, in their order
    unexplained: tuple[LogEntry, ...]  # the init or acks that contain tuples which were not found
    outcomes: tuple[Outcome, ...]  # notices, in their order
    checksum: int  # XOR of what the acker applied
    status: Status  # what became of it

    def having(self, state: State) -> list[Node]:
        return [node for node in self.nodes if node.state is state]

    @property
    def children(self) -> dict[int | None, list[int]]:
        """Indices of children by that of their first parent; None for the spout's, and where it is not known."""
        found: dict[int | None, list[int]] = {}
        for at, node in enumerate(self.nodes):
            found.setdefault(node.parents[0] if node.parents else None, []).append(at)
        return found

    @property
    def fails(self) -> list[LogEntry]:
        return [entry for entry in self.entries if entry.kind == "fail" and not entry.dropped]

    @property
    def reason(self) -> FailReason | None:
        by_default = FailReason.FAILED if self.status is Status.FAILED else None
        return next((outcome.reason for outcome in self.outcomes if outcome.reason is not None), by_default)

    @property
    def ended_ms(self) -> int | None:
        """By the time of the ack log if its outcome follows from that, else of the notice; None while it is open."""
        applied = [entry for entry in self.entries if not entry.dropped]
        if self.status is Status.ACKED and applied:
            _, counted = _decided(applied)
            return applied[counted - 1].at_ms
        if self.status is Status.FAILED and self.reason is FailReason.FAILED and self.fails:
            return self.fails[0].at_ms
        return self.outcomes[0].at_ms if self.outcomes else None


def build_tree(records: RootRecords, committed: Committed | None = None, spouts: Collection[str] = ()) -> Tree:
    entries = tuple(sorted(records.entries, key=lambda entry: (entry.offset, _KINDS.index(entry.kind))))
    outcomes = tuple(sorted(records.outcomes, key=lambda outcome: (outcome.at_ms, outcome.offset)))
    applied = [entry for entry in entries if not entry.dropped]
    init = next((entry for entry in applied if entry.kind == "init"), None)
    # Copies of a tuple, the first of them first; tuples in the order in which they were emitted.
    copies: dict[tuple[str, int, int], list[Delivery]] = defaultdict(list)
    for each in sorted(records.deliveries, key=lambda each: each.order):
        copies[each.bolt, each.task, each.edge].append(each)
    deliveries = [first for first, *_ in copies.values()]
    if init is not None and init.spout is not None:
        # No part of a name holds a dot: {topology}.notices.{spout}.
        spout: str | None = init.spout.topic.rpartition(".")[2]
    else:
        spout = next((delivery.source for delivery in deliveries if delivery.source in spouts), None)
    known, unexplained = find_families(deliveries, applied, spout or "")
    status, counted = _decided(applied)
    if outcomes:
        status = Status.ACKED if outcomes[0].reason is None else Status.FAILED
    elif init is None:
        status = Status.NO_INIT
    tuples = _Tuples(deliveries, known, unexplained, spout)
    if status is Status.ACKED:
        tuples.decide_by_outcome(applied[:counted])
    elif init is not None:
        tuples.decide_by_checksum(checksum(applied))
    commits = committed or {}
    tuples.decide_by_commit(commits, {entry.component for entry in applied if entry.kind == "fail"})
    nodes = tuple(
        Node(
            delivery,
            tuple(sorted(copy.offset for copy in of_tuple)),
            tuples.states[at],
            tuple(tuples.acks.get(at, ())),
            *tuples.parents(at),
            commits.get((delivery.bolt, delivery.task)),
        )
        for at, (delivery, of_tuple) in enumerate(zip(deliveries, copies.values(), strict=True))
    )
    return Tree(records.root, spout, init, nodes, entries, unexplained, outcomes, checksum(applied), status)


def _decided(applied: Sequence[LogEntry]) -> tuple[Status, int]:
    """The outcome by the log, and after how many entries: what comes after it is too late."""
    begun = failed = False
    sum_ = 0
    for number, entry in enumerate(applied, 1):
        begun = begun or entry.kind == "init"
        failed = failed or entry.kind == "fail"
        sum_ ^= entry.val
        if begun and (failed or sum_ == 0):
            return Status.FAILED if sum_ else Status.ACKED, number
    return Status.OPEN, len(applied)


class _Tuples:
    """The tuples of a tree, and what follows from acks: the `states` of all, and the `acks` of each."""

    def __init__(
        self, deliveries: list[Delivery], known: Iterable[Family], unexplained: Sequence[LogEntry], spout: str | None
    ) -> None:
        self._deliveries = deliveries
        self._families = list(known)
        self._spout = spout
        self.acks: dict[int, list[LogEntry]] = defaultdict(list)
        for family in self._families:
            for at in family.parents:
                self.acks[at] += family.entries
        self._reported = {child: family.parents for family in self._families for child in family.children}
        self._init_is_known = any(entry.kind == "init" for family in self._families for entry in family.entries)
        self._all_explained = not unexplained
        # Component and task → acks that may be of any of its tuples; without a task, of those of all tasks.
        self._unclear = Counter((entry.component, entry.task) for entry in unexplained if entry.kind == "ack")
        self._inboxes: dict[str, list[int]] = defaultdict(list)
        self._open: dict[str, list[int]] = defaultdict(list)
        for at, delivery in enumerate(deliveries):
            self._inboxes[delivery.bolt].append(at)
            if at not in self.acks:
                self._open[delivery.bolt].append(at)
        self.states = [
            State.ACKED if at in self.acks else State.UNCLEAR if self._acks_that_may_be_of(at) else State.OPEN
            for at in range(len(deliveries))
        ]

    def decide_by_outcome(self, in_time: Iterable[LogEntry]) -> None:
        """A complete tree has no open tuple among those whose edges the acker had received in time."""
        applied = {id(entry) for entry in in_time}
        acked = self.acks.keys() | {
            child
            for family in self._families
            if applied.issuperset(map(id, family.entries))
            for child in family.children
        }
        # The others are of an execution that was interrupted, or children in an ack that is not explained.
        other = State.OPEN if self._all_explained else State.UNCLEAR
        self.states = [State.ACKED if at in acked else other for at in range(len(self._deliveries))]

    def decide_by_checksum(self, sum_: int) -> None:
        """Decides what is unclear, if the checksum does: it holds each edge that only one side has sent."""
        states = self.states
        candidates = [at for at, state in enumerate(states) if state is not State.ACKED or at not in self._reported]
        if State.UNCLEAR not in states or len(candidates) > MOST_DIMENSIONS:
            return
        subset = Basis(self._deliveries[at].edge for at in candidates).add(sum_)
        if subset is None:
            return
        in_sum = {at for bit, at in enumerate(candidates) if subset >> bit & 1}
        if any(states[at] is State.OPEN for at in self._reported.keys() - in_sum):
            return
        # An edge that neither side has sent is that of a tuple whose parent is not acked either.
        for at in self._reported.keys() & {at for at, state in enumerate(states) if state is State.UNCLEAR}:
            if at not in in_sum:
                states[at] = State.ACKED
            # If two acks may be of the tuple, its edge can be in the checksum although it was acked.
            elif self._acks_that_may_be_of(at) < _TWICE:
                states[at] = State.OPEN

    def decide_by_commit(self, committed: Committed, failing: set[str]) -> None:
        """Decides what is unclear by what its group committed: what is before that was acked, if nothing was failed."""
        for at, each in enumerate(self._deliveries):
            is_done = each.bolt not in failing and committed.get((each.bolt, each.task), 0) > each.offset
            if self.states[at] is State.UNCLEAR and is_done:
                self.states[at] = State.ACKED

    def parents(self, at: int) -> tuple[Origin, tuple[int, ...]]:
        if at in self._reported:
            return Origin.REPORTED, self._reported[at]
        source = self._deliveries[at].source
        if source == self._spout:
            return (Origin.UNREPORTED if self._init_is_known else Origin.INFERRED), ()
        inbox, open_ = self._inboxes[source], self._open[source]
        received, waiting = self._before(inbox, at), self._before(open_, at)
        # A tuple whose ack was explained has all its children already.
        if waiting == 1:
            return Origin.INFERRED, (open_[0],)
        if waiting or not received or any(component == source for component, _ in self._unclear):
            return Origin.AMBIGUOUS, ()
        return Origin.UNREPORTED, (inbox[0],) if received == 1 else ()

    def _acks_that_may_be_of(self, at: int) -> int:
        delivery = self._deliveries[at]
        return self._unclear[delivery.bolt, delivery.task] + self._unclear[delivery.bolt, None]

    def _before(self, inbox: list[int], child: int) -> int:
        """How many of an inbox may be parents of a tuple: the first so many, for they are in order of time."""
        delivery = self._deliveries[child]
        if delivery.bolt == delivery.source:
            return bisect_left(inbox, child)
        return bisect_right(inbox, delivery.emitted_ms + _CLOCK_MS, key=lambda at: self._deliveries[at].emitted_ms)
