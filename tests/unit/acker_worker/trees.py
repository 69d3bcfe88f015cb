"""Spouts and bolts that write an ack log at random, and a model that keeps every tuple of their multi-anchored trees.

Entries are written in any order, in batches of any size. Two promises are checked at every step: a spout is notified of
an ack only when every tuple of the tree was acked, and of a tree whose entries have all been read once it is notified
immediately.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from typing import Any

from tests.ack_log import SETTINGS, TICK_MS, Log, Outcome, new_fold, outcomes
from tests.acking_cases import LIFETIME_TICKS
from tests.anchoring import AnchoredTuple, new_child
from tuple_tree.messages import SpoutAddress, decode_ack_batch

SPOUTS = (SpoutAddress("t.notices.s", 0, 2 * TICK_MS), SpoutAddress("t.notices.s", 1, 5 * TICK_MS))
WRITERS = ("b/0", "b/1", "c/0")
ENTRIES = ("inits", "acks", "fails", "resets")


@dataclass(eq=False)
class ModelTuple(AnchoredTuple):
    """A delivered tuple of the model."""

    is_acked: bool = False


@dataclass(eq=False)
class Tree:
    """Everything that a tree consists of, edge by edge."""

    root: int
    spout: SpoutAddress
    tuples: list[ModelTuple] = field(default_factory=list)
    unread: int = 1
    """Its init, and the ack of each acked tuple, until the acker reads them."""
    is_failed: bool = False
    is_disturbed: bool = False
    """An unrecognised repeat, or a timeout, touched it: it may have no outcome, but no false one."""
    is_repeated: bool = False
    """The log has one of its batches twice."""
    outcome: str | None = None
    born: int | None = None
    touched: int = 0
    """Ticks at which its first and its last entry was read."""

    @property
    def is_complete(self) -> bool:
        return all(each.is_acked for each in self.tuples)


class Trees:
    """A log, its fold, and its trees; with `faults`, writers are also restarted, and their zombies continue."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self.random, self.faults = random.Random(seed), faults
        self.log, self.fold = Log(), new_fold()
        self.trees: dict[int, Tree] = {}
        self.open: list[ModelTuple] = []
        self.acked: list[ModelTuple] = []
        self.entries: list[tuple[str, int, int]] = []  # kind, root, val
        self.sessions = dict.fromkeys(WRITERS, bytes(16))
        self.zombies: list[tuple[str, bytes]] = []
        for writer, session in self.sessions.items():
            self.send(writer=writer, session=session, opens=True)

    def run(self, steps: int) -> None:
        """Takes random steps, and writes the inits that are left."""
        weights = {
            self.emit: 20, self.emit_anchored: 15, self.ack: 25, self.fail_or_reset: 5, self.write: 30,
            self.repeat: 3, self.advance: 20,
        }  # fmt: skip
        if self.faults:
            weights |= {self.restart: 2, self.write_as_zombie: 2, self.ack_again: 2}
        for step in self.random.choices([*weights], [*weights.values()], k=steps):
            step()
        for spout in SPOUTS:
            self.send(spout, [each for each in self.entries if each[0] == "inits"], writer="s/0")

    def next_id(self) -> int:
        return self.random.getrandbits(64) or 1

    def trees_of(self, *tuples: ModelTuple) -> Iterable[Tree]:
        return [self.trees[root] for each in tuples for root in each.edges]

    def some(self, tuples: list[ModelTuple], most: int) -> list[ModelTuple]:
        return self.random.sample(tuples, min(self.random.randint(1, most), len(tuples)))

    def emit(self) -> None:
        root, edges = self.next_id(), [self.next_id() for _ in range(self.random.randint(0, 4))]
        tree = Tree(root, self.random.choice(SPOUTS), [ModelTuple({root: edge}) for edge in edges])
        self.trees[root] = tree
        self.open += tree.tuples
        self.entries.append(("inits", root, reduce(xor, edges, 0)))

    def emit_anchored(self) -> None:
        anchors = self.some(self.open, 4)
        twice = anchors[: self.random.randint(0, 1)]
        for _ in range(self.random.randint(1, 3) if anchors else 0):
            child = ModelTuple(new_child([*anchors, *twice], self.next_id()))
            self.open.append(child)
            for tree in self.trees_of(child):
                tree.tuples.append(child)

    def ack(self) -> None:
        for each in self.some(self.open, 6):
            each.is_acked = True
            self.open.remove(each)
            self.acked.append(each)
            for root, val in each.ack_vals():
                self.trees[root].unread += 1
                self.entries.append(("acks", root, val))

    def fail_or_reset(self) -> None:
        kind = self.random.choice(("fails", "resets"))
        for tree in self.trees_of(*self.some(self.open, 1)):
            tree.is_failed |= kind == "fails"
            self.entries.append((kind, tree.root, 0))

    def write(self) -> None:
        """A writer sends some entries, in any order."""
        self.random.shuffle(self.entries)
        writer = self.random.choice(WRITERS)
        spout, some = self.random.choice(SPOUTS), self.entries[: self.random.randint(1, 12)]
        self.send(spout, some, writer=writer, session=self.sessions[writer])

    def send(self, spout: SpoutAddress = SPOUTS[0], entries: Iterable[tuple[str, int, int]] = (), **batch: Any) -> None:
        """Appends a batch of entries, without inits of other spouts, and has it read."""
        some = [(kind, root, val) for kind, root, val in entries if kind != "inits" or self.trees[root].spout is spout]
        columns: dict[str, Any] = {kind: [] for kind in ENTRIES}
        for kind, root, val in some:
            self.entries.remove((kind, root, val))
            columns[kind].append((root, val) if kind in ("inits", "acks") else root)
            self.touch(self.trees[root], kind)
        self.take(outcomes(self.fold.apply([self.log.send(spout=spout, **columns, **batch)])))
        for tree in {self.trees[root] for _, root, _ in some}:
            if tree.is_complete and not tree.unread and not tree.is_disturbed:
                assert tree.outcome is not None, f"tree {tree.root:x} is complete, and there was no notice"
                assert tree.outcome == "ack" or tree.is_failed

    def touch(self, tree: Tree, kind: str) -> None:
        now = self.log.now_ms // TICK_MS
        tree.born = now if tree.born is None else tree.born
        # Without progress for a lifetime, or at its largest age, it has expired.
        tree.is_disturbed |= now - max(tree.touched, tree.born) >= LIFETIME_TICKS
        tree.is_disturbed |= now - tree.born >= SETTINGS.max_age_ticks
        tree.touched = now
        tree.unread -= kind in ("inits", "acks")

    def repeat(self) -> None:
        """The same batch again, of a writer that is not forgotten yet, has no effect."""
        self.send(writer="a new one")
        since = self.log.now_ms - SETTINGS.max_age_ticks * TICK_MS
        record = self.random.choice([each for each in self.log.records if each.append_ms >= since])
        assert outcomes(self.fold.apply([self.log.append(record.value)])) == []
        batch = decode_ack_batch(record.value)
        for roots in (batch.init_roots, batch.ack_roots, batch.fail_roots, batch.reset_roots):
            for root in roots.tolist():
                self.trees[root].is_repeated = True

    def restart(self) -> None:
        writer = self.random.choice(WRITERS)
        self.zombies.append((writer, self.sessions[writer]))
        self.sessions[writer] = self.random.randbytes(16)
        self.send(writer=writer, session=self.sessions[writer], opens=True)

    def write_as_zombie(self) -> None:
        """Acks of a writer that was replaced are dropped."""
        acks = [each for each in self.entries if each[0] == "acks"][:2]
        for writer, session in self.random.sample(self.zombies, min(1, len(self.zombies))):
            for _, root, _ in acks:
                self.trees[root].is_disturbed = True
            self.send(entries=acks, writer=writer, session=session)

    def ack_again(self) -> None:
        """A bolt that was killed after its acks processes its inputs again, and is not recognised."""
        again = self.some(self.acked, 4)
        for tree in self.trees_of(*again):
            tree.is_disturbed = True
        acks = [pair for each in again for pair in each.ack_vals()]
        record = self.log.send(writer="again/0", session=self.random.randbytes(16), acks=acks)
        self.take(outcomes(self.fold.apply([record])))

    def advance(self) -> None:
        self.log.now_ms += self.random.choice([1, 10, TICK_MS // 3, TICK_MS, 2 * TICK_MS])
        if self.random.random() < 0.5:
            self.take(outcomes(self.fold.advance(self.log.now_ms)))

    def take(self, notified: list[Outcome]) -> None:
        for spout, root, outcome in notified:
            tree = self.trees[root]
            assert spout == tree.spout
            assert outcome != "ack" or tree.is_complete, f"tree {root:x} was acked with open tuples"
            assert outcome != "failed" or tree.is_failed
            tree.outcome = tree.outcome or outcome
