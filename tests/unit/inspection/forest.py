"""Tuple trees as a topology makes them, by the SDK's own rules for edges, and the expected state of each tuple."""

import random
from dataclasses import dataclass, field

from inspection.trace.records import LogEntry, Node, Outcome, RootRecords
from tests.anchoring import AnchoredTuple, new_child
from tuple_tree.anchors import Edges
from tuple_tree.messages import FailReason, SpoutAddress

ROOT = 0x0123456789ABCDEF

SPOUT = SpoutAddress("t.notices.lines", 0, 30_000)


@dataclass(eq=False)
class Grown(AnchoredTuple):
    """A tuple on its way."""

    bolt: str
    task: int
    offset: int
    emitted_ms: int
    source: str
    parents: tuple[int, ...]
    acked: bool = False
    chain: tuple[str, ...] = ()

    def node(self, root: int) -> Node:
        return Node(
            *(self.bolt, self.task, self.offset, self.emitted_ms, self.source, "default"),
            self.edges[root],
            len(self.edges),
            f"offset {self.offset}",
            chain=self.chain,
        )


@dataclass
class Forest:
    """Trees that grow together.

    Args:
        seed: repeats it.
        roots: how many trees.
    """

    seed: int
    roots: tuple[int, ...]
    tuples: list[Grown] = field(default_factory=list)
    entries: dict[int, list[LogEntry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now = 1_000
        self.log = 0
        self.offsets: dict[tuple[str, int], int] = {}
        self.entries = {root: [] for root in self.roots}

    def id(self) -> int:
        return self.random.getrandbits(64) or 1

    def begin(self, root: int, bolt: str, recipients: int) -> list[int]:
        """A spout tuple for this number of tasks of a bolt."""
        val, born = 0, []
        for task in range(recipients):
            edge = self.id()
            val ^= edge
            born.append(self._grow(bolt, task, "lines", {root: edge}, ()))
        self.add_entry(root, "init", "lines/0", val, SPOUT)
        return born

    def emit(self, parents: tuple[int, ...], bolt: str, task: int, *chained: str) -> int:
        """Adds a child that the bolt of the first parent has emitted, or the last bolt of its chain."""
        anchors = [self.tuples[at] for at in parents]
        chain = (anchors[0].bolt, *chained)
        return self._grow(bolt, task, chain[-1], new_child(anchors, self.id()), parents, chain)

    def ack(self, at: int) -> None:
        grown = self.tuples[at]
        grown.acked = True
        for root, val in grown.ack_vals():
            self.add_entry(root, "ack", f"{grown.bolt}/{grown.task}", val)

    def add_entry(self, root: int, kind: str, writer: str, val: int = 0, spout: SpoutAddress | None = None) -> None:
        self.log += 1
        assert kind in ("init", "ack", "fail")
        self.entries[root].append(
            LogEntry(kind, 0, self.log, self.now, writer, val, "no" if kind == "fail" else "", spout)  # type: ignore[arg-type]
        )

    def records(self, root: int, *, failed: FailReason | None = None, acked: bool = False) -> RootRecords:
        """The records of a root, in a random order."""
        found = RootRecords(root)
        found.nodes = [grown.node(root) for grown in self.tuples if root in grown.edges]
        found.entries = list(self.entries[root])
        if failed is not None or acked:
            found.outcomes = [Outcome("t.notices.lines", 0, 5, self.now, failed, "")]
        for records in (found.nodes, found.entries):
            self.random.shuffle(records)
        return found

    def of(self, root: int) -> list[Grown]:
        return [grown for grown in self.tuples if root in grown.edges]

    def leave(self, bolt: str, *chained: str) -> int:
        """Adds a tuple of the root that leaves the chain of the spout; the caller adds the entries of its edge."""
        return self._grow(bolt, 0, chained[-1], {self.roots[0]: self.id()}, (), ("lines", *chained))

    def _grow(
        self,
        bolt: str,
        task: int,
        source: str,
        edges: Edges,
        parents: tuple[int, ...],
        chain: tuple[str, ...] = (),
    ) -> int:
        self.now += self.random.choice((0, 0, 1, 7))
        offset = self.offsets.get((bolt, task), 0) + self.random.choice((1, 1, 5))
        self.offsets[bolt, task] = offset
        self.tuples.append(Grown(edges, bolt, task, offset, self.now, source, parents, chain=chain))
        return len(self.tuples) - 1


def line_of_words(forest: Forest, words: int, *, stuck: int | None = None) -> None:
    """A line, split into words, all acked but one."""
    (line,) = forest.begin(ROOT, "split", 1)
    children = [forest.emit((line,), "count", number % 3) for number in range(words)]
    forest.ack(line)
    for number, child in enumerate(children):
        if number != stuck:
            forest.ack(child)
