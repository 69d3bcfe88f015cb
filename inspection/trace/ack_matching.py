"""Which acks belong to which tuples, and which tuples are whose children: solved for over GF(2), see ADR 14.

An ack of a task is the XOR of one edge of its inbox and of some edges whose source is its component, or a bolt chained
to it; an init is the XOR of the edges of the spout tuple's recipients. While the chain of a spout's task is open, the
init also has an edge of the spout itself, which the spout acks later. Three ways to find them, the cheap ones first:

- *direct*: the ack is an edge of the task's inbox as it is: a tuple without children.
- *basis*: among few tuples, elimination finds the one subset whose XOR the ack is. It also finds acks that only add up
  together, such as those of a bolt in Spark, which acks children and inputs separately.
- *runs*: among many tuples, the children are searched in tuples that were emitted one after the other.

An ack that none of them finds stays unexplained.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain, islice
from operator import xor
from typing import Final

from inspection.trace.records import LogEntry, Node, Origin

MOST_DIMENSIONS: Final = 44
"""A number that is not an XOR of tuples found passes for one with a probability of 2^(44 - 64), one in a million."""
MOST_CANDIDATES: Final = 36  # tuples in a basis; the other dimensions are for acks that only add up with others
MOST_RUN_PARENTS: Final = 20  # how many tuples of a task are tried as the parent of a run, for each ack
MOST_STEPS: Final = 5_000_000
"""How many tuples the search for the runs of a component visits at most, a few seconds."""


def match_acks(nodes: Sequence[Node], entries: Iterable[LogEntry], spout: str) -> tuple[LogEntry, ...]:
    """Explains the init and the acks of a tree, in the order of the log; none of its tuples is given twice.

    The nodes get their acks, and their parents if an entry holds them as children. Returns what is unexplained.
    """
    by_component: dict[str, list[LogEntry]] = defaultdict(list)
    for entry in entries:
        if entry.kind in ("init", "ack"):
            is_of_spout = entry.kind == "init" or entry.component == spout
            by_component["" if is_of_spout else entry.component].append(entry)
    searches = [_Search(nodes, component, of, spout) for component, of in by_component.items()]
    return tuple(entry for search in searches for entry in search.left.values())


def checksum(entries: Iterable[LogEntry]) -> int:
    """The XOR of what the acker applied: zero if every tuple was acked."""
    return reduce(xor, (entry.val for entry in entries if not entry.dropped), 0)


class Basis:
    """Vectors over GF(2), by Gaussian elimination, each with a mask of its members as bits."""

    def __init__(self, vectors: Iterable[int]) -> None:
        self._rows: dict[int, tuple[int, int]] = {}
        for bit, vector in enumerate(vectors):
            self.add(vector, 1 << bit)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, vector: int, member: int = 0) -> int | None:
        """Adds a vector unless it is the XOR of others: then returns their members, and its own."""
        while vector and (row := self._rows.get(vector.bit_length())) is not None:
            vector, member = vector ^ row[0], member ^ row[1]
        if not vector:
            return member
        self._rows[vector.bit_length()] = (vector, member)
        return None


class _Search:
    """Explains the acks of one component; with an empty component, the init and the acks of the spout.

    `left` has the unexplained entries.
    """

    def __init__(self, nodes: Sequence[Node], component: str, entries: list[LogEntry], spout: str) -> None:
        self._component = component
        self._inbox = dict.fromkeys(node for node in nodes if component and node.bolt == component)
        # Linked, because they are taken out one by one, from the front above all, and a tree may have a million tuples.
        self._open: defaultdict[int | None, OrderedDict[Node, None]] = defaultdict(OrderedDict)  # None: of all tasks
        for node in self._inbox:
            self._open[None][node] = self._open[node.task][node] = None
        self._unclaimed = OrderedDict.fromkeys(node for node in nodes if node.emitter == (component or spout))
        self._steps = 0
        # By identity: a batch may have equal entries.
        self.left = {id(entry): entry for entry in entries}
        self._directly()
        before = -1
        while self.left and len(self.left) != before:
            before = len(self.left)
            self._by_basis()
            if len(self.left) == before:
                self._by_runs()

    def _directly(self) -> None:
        by_edge = {(task, node.edge): node for task, open_ in self._open.items() for node in open_}
        for entry in [*self.left.values()]:
            node = by_edge.get((entry.task, entry.val))
            if node is not None:
                self._know((entry,), (node,), ())

    def _by_basis(self) -> None:
        candidates = self._candidates()
        basis, members = Basis(node.edge for node in candidates), len(candidates)
        tried: list[LogEntry] = []
        for entry in [*self.left.values()]:
            if len(basis) > MOST_DIMENSIONS:
                return
            tried.append(entry)
            subset = basis.add(entry.val, 1 << members + len(tried) - 1)
            if subset is None:
                continue
            together = tuple(each for bit, each in enumerate(tried) if subset >> members + bit & 1)
            parents, children = self._roles([node for bit, node in enumerate(candidates) if subset >> bit & 1])
            if parents or not self._component:
                self._know(together, parents, children)

    def _candidates(self) -> list[Node]:
        """The tuples that acks may be of: if they are too many, the earliest, for acks come in order as well."""

        def first(open_: int, unclaimed: int, inbox: int = 0) -> list[Node]:
            parts = (self._open[None], open_), (self._unclaimed, unclaimed), (self._inbox, inbox)
            return [*dict.fromkeys(chain.from_iterable(islice(part, count) for part, count in parts))]

        most = MOST_CANDIDATES
        candidates = first(most + 1, most + 1)
        if len(candidates) > most:
            return first(most // 4, most * 3 // 4)
        # Acked tuples may have been executed again: they are candidates only if there is room.
        all_ = first(most + 1, most + 1, 2 * most)
        return all_ if len(all_) <= most else candidates

    def _by_runs(self) -> None:
        if not self._component and len(together := tuple(self.left.values())) > 1:
            # The init and the spout's ack both have the spout's own edge, so their XOR does not have it.
            run = self._run(reduce(xor, (entry.val for entry in together)))
            if run is not None:
                self._know(together, (), run)
                return
        for entry in [*self.left.values()]:
            if self._steps > MOST_STEPS:
                return
            for parent in self._parents_of_run(entry.task) if self._component else [None]:
                run = self._run(entry.val if parent is None else entry.val ^ parent.edge)
                if run is not None:
                    self._know((entry,), () if parent is None else (parent,), run)
                    break

    def _parents_of_run(self, task: int | None) -> list[Node]:
        """The tuples that an ack of a task may be of: a few open ones, else tuples that may be executed again."""
        acked = (node for node in self._inbox if node.acks and task in (None, node.task))
        return [*islice(chain(self._open[task], acked), MOST_RUN_PARENTS)]

    def _run(self, wanted: int) -> tuple[Node, ...] | None:
        """Unclaimed tuples, one after the other, whose edges have this XOR."""
        starts, passed, sum_ = {0: 0}, list[Node](), 0
        for node in self._unclaimed:
            self._steps += 1
            passed.append(node)
            sum_ ^= node.edge
            start = starts.get(sum_ ^ wanted)
            if start is not None:
                return tuple(passed[start:])
            starts[sum_] = len(passed)
        return None

    def _roles(self, tuples: list[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """Which of the tuples were acked, and which are their children."""
        received = [node for node in tuples if node in self._inbox]
        acked = [node for node in received if node.emitter != self._component]
        if received and not acked:
            # The bolt receives what it emits itself: the earliest of a chain is the parent.
            acked = [min(received, key=lambda node: node.emitted_ms)]
        return tuple(acked), tuple(node for node in tuples if node not in acked)

    def _know(self, entries: tuple[LogEntry, ...], parents: tuple[Node, ...], children: tuple[Node, ...]) -> None:
        """Entries, the ack or several that only add up together, are of these tuples, emitted anchored to those."""
        for entry in entries:
            self.left.pop(id(entry), None)
        for parent in parents:
            parent.acks += entries
            self._open[None].pop(parent, None)
            self._open[parent.task].pop(parent, None)
        for child in children:
            child.reported, child.parents, child.origin = entries, parents, Origin.REPORTED
            self._unclaimed.pop(child, None)
