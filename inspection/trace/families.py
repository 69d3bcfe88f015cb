"""Which acks belong to which tuples, and which tuples are whose children.

The parent of a tuple is not on the wire. But an ack carries `edge ^ out`, where `out` is the XOR of the edges of the
children that the task emitted; an init carries the XOR of the edges of the spout tuple's recipients. So an ack of a
task of `split` is the XOR of one edge that lies in that task's inbox, and of some edges whose source is `split`. Three
ways to find them, the cheap ones first:

- *direct*: the ack is an edge of the task's inbox as it is: a tuple without children.
- *basis*: where few tuples can be meant, linear algebra over GF(2) gives the one subset whose XOR the ack is. It also
  finds acks that only add up together, as where a child is anchored to two tuples of one tree, or where a lane of a
  Spark query acks a whole micro-batch with one entry.
- *runs*: where many can be meant, the children of a tuple are looked for among tuples that were emitted one after the
  other.

An accident is as likely as two random 64-bit numbers being equal, times the subsets that a way looks at: the basis is
kept far below 64 dimensions for that reason. What none of them finds stays unexplained.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import xor
from typing import Final

from inspection.trace.records import Delivery, LogEntry
from inspection.trace.xor_basis import XorBasis

MOST_DIMENSIONS: Final = 44
"""A number that is no XOR of tuples found passes for one with a probability of 2^(44 - 64), one in a million."""
MOST_CANDIDATES: Final = 36  # tuples in a basis; the other dimensions are for acks that only add up with others
MOST_RUN_PARENTS: Final = 20  # how many tuples of a task are tried as the parent of a run, for each ack
MOST_STEPS: Final = 5_000_000
"""How many tuples are looked at in search of the runs of a component before it is given up, a few seconds."""


@dataclass(frozen=True, slots=True)
class Family:
    """Acks (or the init) that were explained."""

    entries: tuple[LogEntry, ...]  # the ack, or several that only add up together
    parents: tuple[int, ...]  # indices of the tuples that they ack; none for an init
    children: tuple[int, ...]  # indices of the tuples that were emitted anchored to these


@dataclass(frozen=True, slots=True)
class Families:
    """All inits and acks, explained or not."""

    known: tuple[Family, ...]
    unexplained: tuple[LogEntry, ...]


def find_families(deliveries: Sequence[Delivery], entries: Iterable[LogEntry], spout: str) -> Families:
    """Explains the init and the acks of a tree, of whose tuples none is given twice."""
    by_component: dict[str, list[LogEntry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.at_ms, entry.partition, entry.offset)):
        if entry.kind in ("init", "ack"):
            by_component.setdefault("" if entry.kind == "init" else entry.component, []).append(entry)
    known: list[Family] = []
    unexplained: list[LogEntry] = []
    for component, entries in by_component.items():
        search = _Search(deliveries, component or spout, is_init=not component)
        search.explain(entries)
        known += search.known
        unexplained += search.left
    return Families(tuple(known), tuple(unexplained))


class _Search:
    """The acks of one component, or the init of a spout."""

    def __init__(self, deliveries: Sequence[Delivery], component: str, *, is_init: bool) -> None:
        self._deliveries = deliveries
        self._component = component
        indices = range(len(deliveries))
        self._inbox = [] if is_init else [at for at in indices if deliveries[at].bolt == component]
        self._is_init = is_init
        self._acked: set[int] = set()
        self._steps = 0
        self.known: list[Family] = []
        # Linked, because they are taken out one by one, from the front above all, and a tree may have a million tuples.
        self._open = OrderedDict.fromkeys(self._inbox)
        self._open_of: dict[int, OrderedDict[int, None]] = {}
        for at in self._inbox:
            self._open_of.setdefault(deliveries[at].task, OrderedDict())[at] = None
        emitted = [at for at in indices if deliveries[at].source == component]
        self._unclaimed = OrderedDict.fromkeys(sorted(emitted, key=lambda at: deliveries[at].order))
        # By identity: a batch may have equal entries.
        self._left: OrderedDict[int, LogEntry] = OrderedDict()

    @property
    def left(self) -> list[LogEntry]:
        return [*self._left.values()]

    def explain(self, entries: list[LogEntry]) -> None:
        self._left = OrderedDict((id(entry), entry) for entry in entries)
        self._directly()
        while self._left:
            while self._by_basis():
                pass
            if not self._by_runs():
                return

    def _directly(self) -> None:
        places = {(self._deliveries[at].task, self._deliveries[at].edge): at for at in self._inbox}
        by_edge = {self._deliveries[at].edge: at for at in self._inbox}
        for entry in self.left:
            found = by_edge.get(entry.val) if entry.task is None else places.get((entry.task, entry.val))
            if found is not None:
                self._know((entry,), (found,), ())

    def _by_basis(self) -> bool:
        """Returns whether anything was explained."""
        candidates = self._candidates()
        basis, members = XorBasis(), len(candidates)
        for bit, at in enumerate(candidates):
            basis.add(self._deliveries[at].edge, 1 << bit)
        before = len(self._left)
        seen: list[LogEntry] = []
        families: list[Family] = []
        for entry in self._left.values():
            if len(basis) > MOST_DIMENSIONS:
                break
            seen.append(entry)
            found = basis.add(entry.val, 1 << members + len(seen) - 1)
            if found is None:
                continue
            together = tuple(each for bit, each in enumerate(seen) if found >> members + bit & 1)
            parents, children = self._roles([at for bit, at in enumerate(candidates) if found >> bit & 1])
            if self._is_init or parents:
                families.append(Family(together, parents, children))
        for family in families:
            self._know(family.entries, family.parents, family.children)
        return len(self._left) < before

    def _candidates(self) -> list[int]:
        """The tuples that acks may speak of: if they are too many, the earliest, for acks come in order as well."""

        def first(open_: int, unclaimed: int) -> list[int]:
            return list(dict.fromkeys([*islice(self._open, open_), *islice(self._unclaimed, unclaimed)]))

        candidates = first(MOST_CANDIDATES + 1, MOST_CANDIDATES + 1)
        if len(candidates) > MOST_CANDIDATES:
            return first(MOST_CANDIDATES // 4, MOST_CANDIDATES * 3 // 4)
        # Those that were acked may have been executed again; they are candidates only if there is room for them.
        everything = list(dict.fromkeys([*candidates, *islice(self._inbox, 2 * MOST_CANDIDATES)]))
        return everything if len(everything) <= MOST_CANDIDATES else candidates

    def _by_runs(self) -> bool:
        """Returns whether anything was explained."""
        before = len(self._left)
        for entry in self.left:
            if self._steps > MOST_STEPS:
                break
            for parent in [None] if self._is_init else self._parents_of_run(entry.task):
                run = self._run(entry.val if parent is None else entry.val ^ self._deliveries[parent].edge)
                if run is not None:
                    self._know((entry,), () if parent is None else (parent,), run)
                    break
        return len(self._left) < before

    def _parents_of_run(self, task: int | None) -> list[int]:
        """The tuples that an ack of a task may be of: a few that are open, else of those that may be executed again."""
        open_ = self._open if task is None else self._open_of.get(task, ())
        found = [*islice(open_, MOST_RUN_PARENTS)]
        acked = (at for at in self._inbox if at in self._acked and task in (None, self._deliveries[at].task))
        return [*found, *islice(acked, MOST_RUN_PARENTS - len(found))]

    def _run(self, wanted: int) -> tuple[int, ...] | None:
        """Unclaimed tuples, one after the other, whose edges have this XOR."""
        seen = {0: 0}
        passed: list[int] = []
        sum_ = 0
        for end, at in enumerate(self._unclaimed, 1):
            self._steps += 1
            passed.append(at)
            sum_ ^= self._deliveries[at].edge
            start = seen.get(sum_ ^ wanted)
            if start is not None:
                return tuple(passed[start:])
            seen[sum_] = end
        return None

    def _roles(self, tuples: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Which of the tuples were acked, and which are their children."""
        if self._is_init:
            return (), tuple(tuples)
        inbox = set(self._inbox)
        acked = [at for at in tuples if at in inbox and self._deliveries[at].source != self._component]
        if not acked:
            # The bolt receives what it emits itself: the earliest of a chain is the parent.
            own = [at for at in tuples if at in inbox]
            acked = [min(own, key=lambda at: self._deliveries[at].emitted_ms)] if own else []
        return tuple(acked), tuple(at for at in tuples if at not in acked)

    def _know(self, entries: tuple[LogEntry, ...], parents: tuple[int, ...], children: tuple[int, ...]) -> None:
        self.known.append(Family(entries, parents, children))
        for entry in entries:
            self._left.pop(id(entry), None)
        self._acked.update(parents)
        for at in parents:
            self._open.pop(at, None)
            self._open_of[self._deliveries[at].task].pop(at, None)
        for at in children:
            self._unclaimed.pop(at, None)


def checksum(entries: Iterable[LogEntry]) -> int:
    """The XOR of what the acker applied: zero if every tuple was acked."""
    return reduce(xor, (entry.val for entry in entries if not entry.dropped), 0)
