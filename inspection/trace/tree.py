"""The tree of a root, as far as it can be known."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from inspection.trace.ack_matching import MOST_DIMENSIONS, Basis, checksum, match_acks
from inspection.trace.records import Kind, LogEntry, Node, Origin, Outcome, RootRecords, State
from tuple_tree.messages import FailReason, is_undelivered

Committed = Mapping[tuple[str, int], int]
"""Bolt and task → the committed offset of its consumer group, if it is known."""

_Unclear = Counter[tuple[str, int | None]]
"""Component and task → acks that may be of any of its tuples; without a task, of those of all tasks."""
_KINDS: Final[tuple[Kind, ...]] = ("init", "ack", "mark", "fail", "reset")
"""The order in which an acker applies the entries of a batch."""
_TWICE: Final = 2
_CLOCK_MS: Final = 1_000
"""The most that the clocks of two components may differ where the order of their tuples is used."""


class Status(StrEnum):
    ACKED = "acked"
    FAILED = "failed"
    OPEN = "open"
    NO_INIT = "no init"  # no spout gets its outcome: its init is not in the part of the ack log that was read


@dataclass(frozen=True, slots=True)
class Tree:
    root: int
    spout: str | None  # the component that began it; None if that is not known
    init: LogEntry | None  # as the acker applied it
    nodes: tuple[Node, ...]  # all its tuples and dead letters, in the order in which they were emitted
    entries: tuple[LogEntry, ...]  # all entries of the ack log, in their order
    unexplained: tuple[LogEntry, ...]  # the init or acks that contain tuples which were not found
    outcomes: tuple[Outcome, ...]  # notices, in their order
    status: Status
    chains: Mapping[str, Sequence[str]] = field(default_factory=dict)  # component → the bolts chained to it

    @property
    def is_in_chain(self) -> bool:
        """Whether it is open and, according to the ack log, its message is in the chain of the spout's task.

        Then its init has an edge that belongs to no tuple, and the spout has not acked that edge.
        """
        acked = any(entry.kind == "ack" and entry.component == self.spout for entry in self.entries)
        is_open = self.status is Status.OPEN and self.spout in self.chains
        return is_open and self.init in self.unexplained and not acked

    @property
    def tuples(self) -> list[Node]:
        return [node for node in self.nodes if not node.is_dead_letter]

    @property
    def dead_letters(self) -> list[Node]:
        return [node for node in self.nodes if node.is_dead_letter]

    def having(self, *states: State) -> list[Node]:
        return [node for node in self.nodes if node.state in states]

    @property
    def children(self) -> dict[Node | None, list[Node]]:
        """Children by their first parent; None for the spout's, and where it is not known."""
        found: dict[Node | None, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(node.parents[0] if node.parents else None, []).append(node)
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


def build_tree(
    records: RootRecords,
    committed: Committed | None = None,
    spouts: Collection[str] = (),
    chains: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Tree:
    """Computes the tree of these records, whose nodes it completes."""
    entries = tuple(sorted(records.entries, key=lambda entry: (entry.offset, _KINDS.index(entry.kind))))
    outcomes = tuple(sorted(records.outcomes, key=lambda outcome: (outcome.at_ms, outcome.offset)))
    applied = [entry for entry in entries if not entry.dropped]
    init = next((entry for entry in applied if entry.kind == "init"), None)
    # Of the copies of a tuple the first; tuples in the order in which they were emitted.
    firsts: dict[tuple[str, int, int], Node] = {}
    for each in sorted(records.nodes, key=lambda each: each.order):
        first = firsts.setdefault((each.bolt, each.task, each.edge), each)
        first.offsets = tuple(sorted((*first.offsets, each.offset)))
    nodes = tuple(firsts.values())
    if init is not None and init.spout is not None:
        # No part of a name holds a dot: {topology}.notices.{spout}.
        spout: str | None = init.spout.topic.rpartition(".")[2]
    else:
        spout = next((node.emitter for node in nodes if node.emitter in spouts), None)
    unexplained = match_acks(nodes, applied, spout or "")
    status, counted = _decided(applied)
    if outcomes:
        status = Status.ACKED if outcomes[0].reason is None else Status.FAILED
    elif init is None:
        status = Status.NO_INIT
    tree = Tree(records.root, spout, init, nodes, entries, unexplained, outcomes, status, chains)
    unclear = Counter((entry.component, entry.task) for entry in unexplained if entry.kind == "ack")
    for node in nodes:
        node.committed = (committed or {}).get((node.bolt, node.task))
        node.state = State.ACKED if node.acks else State.UNCLEAR if _candidate_acks(node, unclear) else State.OPEN
    if status is Status.ACKED:
        _decide_by_outcome(tree, applied[:counted])
    elif init is not None:
        _decide_by_checksum(nodes, checksum(applied), unclear)
    _decide_by_fails(tree)
    # A tuple before the committed offset was acked, if the bolt failed nothing.
    failing = {entry.component for entry in tree.fails}
    for node in nodes:
        if node.state is State.UNCLEAR and node.bolt not in failing and (node.committed or 0) > node.offset:
            node.state = State.ACKED
    _infer_parents(tree)
    return tree


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


def _candidate_acks(node: Node, unclear: _Unclear) -> int:
    return unclear[node.bolt, node.task] + unclear[node.bolt, None]


def _decide_by_outcome(tree: Tree, in_time: Iterable[LogEntry]) -> None:
    """A complete tree has no open tuple among those whose edges the acker had received in time."""
    applied = {id(entry) for entry in in_time}
    # The others are of an execution that was interrupted, or children in an ack that is not explained.
    other = State.UNCLEAR if tree.unexplained else State.OPEN
    for node in tree.nodes:
        is_in_time = node.reported and applied.issuperset(map(id, node.reported))
        node.state = State.ACKED if node.acks or is_in_time else other


def _decide_by_checksum(nodes: Sequence[Node], sum_: int, unclear: _Unclear) -> None:
    """Decides what is unclear, if the checksum does: it holds each edge that only one side has sent."""
    candidates = [node for node in nodes if node.state is not State.ACKED or not node.reported]
    if len(candidates) > MOST_DIMENSIONS or all(node.state is not State.UNCLEAR for node in candidates):
        return
    subset = Basis(node.edge for node in candidates).add(sum_)
    if subset is None:
        return
    held = [(node, subset >> bit & 1) for bit, node in enumerate(candidates) if node.reported]
    if any(node.state is State.OPEN and not is_held for node, is_held in held):
        return
    # An edge that neither side has sent is that of a tuple whose parent is not acked either.
    for node, is_held in held:
        if node.state is State.UNCLEAR and not is_held:
            node.state = State.ACKED
        # If two acks may be of the tuple, its edge can be in the checksum although it was acked.
        elif node.state is State.UNCLEAR and _candidate_acks(node, unclear) < _TWICE:
            node.state = State.OPEN


def _decide_by_fails(tree: Tree) -> None:
    """A fail names a task and no tuple: where it has sent as many as there are tuples without an ack, it failed these.

    A fail because a child was not delivered does not belong to the input, which may be acked.
    """
    own = (entry for entry in tree.fails if not is_undelivered(entry.message))
    fails = Counter((entry.component, entry.task) for entry in own)
    for (bolt, task), count in fails.items():
        left = [
            node
            for node in tree.nodes
            if node.bolt == bolt and task in (None, node.task) and node.state is not State.ACKED
        ]
        if len(left) == count:
            for node in left:
                node.state = State.FAILED


def _infer_parents(tree: Tree) -> None:
    """The parents of tuples that no explained entry holds as children."""
    init_is_explained = tree.init is not None and tree.init not in tree.unexplained
    unclear = {entry.component for entry in tree.unexplained if entry.kind == "ack"}
    inboxes: dict[str, list[Node]] = defaultdict(list)
    open_: dict[str, list[Node]] = defaultdict(list)
    for node in tree.nodes:
        inboxes[node.bolt].append(node)
        if not node.acks:
            open_[node.bolt].append(node)

    def before(inbox: list[Node], child: Node) -> int:
        """How many of an inbox may be parents of a tuple: the first ones, as they are in order of time."""
        if child.bolt == child.emitter:
            return bisect_left(inbox, child.order, key=lambda node: node.order)
        return bisect_right(inbox, child.emitted_ms + _CLOCK_MS, key=lambda node: node.emitted_ms)

    for node in tree.nodes:
        if node.reported:
            continue
        if node.emitter == tree.spout:
            node.origin = Origin.UNREPORTED if init_is_explained else Origin.INFERRED
            continue
        received, waiting = before(inboxes[node.emitter], node), before(open_[node.emitter], node)
        # A tuple whose ack was explained has all its children already.
        if waiting == 1:
            node.origin, node.parents = Origin.INFERRED, (open_[node.emitter][0],)
        elif received and not waiting and node.emitter not in unclear:
            node.origin = Origin.UNREPORTED
            node.parents = (inboxes[node.emitter][0],) if received == 1 else ()
