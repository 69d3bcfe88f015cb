"""The fold against the trees themselves: a model that keeps every tuple of multi-anchored DAGs.

Messages travel through a bag that delivers them in any order, in batches of any size, and delivers batches again.
Two promises are checked at every step: a spout is notified of an ack only when every tuple of the tree was acked, and
of a tree whose messages have all been delivered once it is notified at once.
"""

import random
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from acker_worker.fold import LogRecord
from tests.acking_cases import LIFETIME_TICKS
from tests.anchoring import AnchoredTuple, new_child
from tests.unit.acker_worker.folding import SETTINGS, TICK_MS, Log, Outcome, new_fold, outcomes


@dataclass(eq=False)
class ModelTuple(AnchoredTuple):
    """A delivered tuple of the model."""

    done: bool = False


@dataclass(eq=False)
class Tree:
    """Everything that a tree consists of, edge by edge."""

    root: int
    tuples: list[ModelTuple] = field(default_factory=list)
    undelivered: int = 1
    """Messages about it in the bag: its init, and one ack a tuple once it is acked."""
    failed: bool = False
    disturbed: bool = False
    """An unrecognised repeat, or a timeout, touched it: it may have no outcome, but no false one."""
    outcome: str | None = None
    born: int | None = None
    touched: int = 0
    """Ticks at which its first and its last message was delivered."""

    @property
    def complete(self) -> bool:
        return all(tuple_.done for tuple_ in self.tuples)


class Trees(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log, self.fold = Log(), new_fold()
        self.trees: dict[int, Tree] = {}
        self.bag: list[tuple[str, int, int]] = []
        self.delivered: list[LogRecord] = []

    def _next_id(self) -> int:
        return self.random.getrandbits(64) or 1

    def _now(self) -> int:
        return self.log.now_ms // TICK_MS

    def _open(self) -> list[ModelTuple]:
        """Tuples that are not acked yet, each once though it may belong to several trees."""
        return list(dict.fromkeys(t for tree in self.trees.values() for t in tree.tuples if not t.done))

    def _trees_of(self, tuple_: ModelTuple) -> list[Tree]:
        return [self.trees[root] for root in tuple_.edges]

    @rule(recipients=st.integers(0, 4))
    def emit_from_spout(self, recipients: int) -> None:
        root = self._next_id()
        edges = [self._next_id() for _ in range(recipients)]
        val = 0
        for edge in edges:
            val ^= edge
        self.trees[root] = Tree(root, [ModelTuple({root: edge}) for edge in edges])
        self.bag.append(("init", root, val))

    @precondition(lambda self: self._open())
    @rule(anchors=st.integers(1, 4), children=st.integers(1, 3), twice=st.booleans())
    def emit_anchored(self, anchors: int, children: int, twice: bool) -> None:
        open_ = self._open()
        chosen = self.random.sample(open_, min(anchors, len(open_)))
        for _ in range(children):
            child = ModelTuple(new_child([*chosen, *chosen[:twice]], self._next_id()))
            for tree in self._trees_of(child):
                tree.tuples.append(child)

    @precondition(lambda self: self._open())
    @rule(count=st.integers(1, 6))
    def ack(self, count: int) -> None:
        open_ = self._open()
        for tuple_ in self.random.sample(open_, min(count, len(open_))):
            tuple_.done = True
            for root, val in tuple_.ack_vals():
                self.trees[root].undelivered += 1
                self.bag.append(("ack", root, val))

    @precondition(lambda self: self._open())
    @rule()
    def fail(self) -> None:
        for tree in self._trees_of(self.random.choice(self._open())):
            tree.failed = True
            self.bag.append(("fail", tree.root, 0))

    @precondition(lambda self: self._open())
    @rule()
    def reset(self) -> None:
        for tree in self._trees_of(self.random.choice(self._open())):
            self.bag.append(("reset", tree.root, 0))

    @precondition(lambda self: self.bag)
    @rule(count=st.integers(1, 12), writer=st.sampled_from(["b/0", "b/1", "c/0"]))
    def deliver(self, count: int, writer: str) -> None:
        self.random.shuffle(self.bag)
        batch, self.bag = self.bag[:count], self.bag[count:]
        entries = {
            kind: [(root, val) for k, root, val in batch if k == kind] for kind in ("init", "ack", "fail", "reset")
        }
        record = self.log.send(
            writer=writer,
            inits=entries["init"],
            acks=entries["ack"],
            fails=[root for root, _ in entries["fail"]],
            resets=[root for root, _ in entries["reset"]],
        )
        self.delivered.append(record)
        for _, root, _ in batch:
            tree = self.trees[root]
            tree.touched = self._now()
            tree.born = tree.touched if tree.born is None else tree.born
        for kind, root, _ in batch:
            if kind in ("init", "ack"):
                self.trees[root].undelivered -= 1
        self._apply(record)
        for root in {root for _, root, _ in batch}:
            self._check_has_outcome(self.trees[root])

    def _recent(self) -> list[LogRecord]:
        """Batches of writers that are not forgotten yet: a writer without batches for a whole window is."""
        since = self.log.now_ms - SETTINGS.max_age_ticks * TICK_MS
        return [record for record in self.delivered if record.append_ms >= since]

    @precondition(lambda self: self._recent())
    @rule()
    def repeat(self) -> None:
        """The same batch again: recognised as a repeat, so there is no effect."""
        before = self.fold.counters.repeated_batches
        value = self.random.choice(self._recent()).value
        assert outcomes(self.fold.apply([self.log.append_bytes(value)])) == []
        assert self.fold.counters.repeated_batches == before + 1

    @precondition(lambda self: any(tree.tuples for tree in self.trees.values()))
    @rule(count=st.integers(1, 4))
    def repeat_unrecognised(self, count: int) -> None:
        """A bolt that was killed after its acks and processes its input again, with edges of its own."""
        acked = [t for tree in self.trees.values() for t in tree.tuples if t.done]
        again = self.random.sample(acked, min(count, len(acked)))
        for tuple_ in again:
            for tree in self._trees_of(tuple_):
                tree.disturbed = True
        acks = [pair for tuple_ in again for pair in tuple_.ack_vals()]
        self._apply(self.log.send(writer="again/0", session=self.random.randbytes(16), acks=acks))

    @rule(ticks=st.integers(1, 4))
    def tick(self, ticks: int) -> None:
        self.log.tick(ticks)
        for tree in self.trees.values():
            # Without progress for a lifetime, or at its largest age, it expires.
            if self._now() - tree.touched >= LIFETIME_TICKS:
                tree.disturbed = True
            if tree.born is not None and self._now() - tree.born >= SETTINGS.max_age_ticks:
                tree.disturbed = True
        self._take_outcomes(outcomes(self.fold.advance(self.log.now_ms)))

    def _apply(self, record: LogRecord) -> None:
        self._take_outcomes(outcomes(self.fold.apply([record])))

    def _take_outcomes(self, notified: list[Outcome]) -> None:
        for _, root, outcome in notified:
            tree = self.trees[root]
            if outcome == "ack":
                assert tree.complete, f"tree {root:x} was acked with open tuples"
            elif outcome == "failed":
                assert tree.failed
            tree.outcome = tree.outcome or outcome

    def _check_has_outcome(self, tree: Tree) -> None:
        if tree.complete and not tree.undelivered and not tree.disturbed:
            assert tree.outcome is not None, f"tree {tree.root:x} is complete, and there was no notice"
            assert tree.outcome == "ack" or tree.failed


TestTrees = Trees.TestCase
