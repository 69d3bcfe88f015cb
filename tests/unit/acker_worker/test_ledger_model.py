"""The ledger against a plain one over a RotatingMap: the same messages, the same outcomes, record by record."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from acker_worker import kernels
from acker_worker.ledger import LedgerSettings, Outcomes
from tests.unit.acker_worker.rule_ledger import RuleLedger
from tuple_tree.messages import SpoutAddress
from tuple_tree.rotating_map import RotatingMap

LIFETIME = 3
MAX_AGE = 7
SPOUTS = (SpoutAddress("t.notices.s", 0, 20), SpoutAddress("t.notices.s", 1, 20))
Decided = list[tuple[int, int, SpoutAddress | None]]


@dataclass
class Record:
    born: int
    checksum: int = 0
    spout: SpoutAddress | None = None
    failed: bool = False
    marked: bool = False


class PlainLedger:
    """The rules of the specification, one record at a time."""

    def __init__(self) -> None:
        self.records: RotatingMap[int, Record] = RotatingMap(buckets=LIFETIME)
        self.tick = 0

    def apply(self, rule: str, root: int, val: int = 0, spout: SpoutAddress | None = None) -> Decided:
        record = self.records.get(root)
        if (record is None and rule == "reset") or (record and record.spout and rule == "init"):
            return []
        record = record or Record(self.tick)
        record.checksum ^= val
        record.spout = record.spout or spout
        record.failed |= rule == "fail"
        record.marked |= rule == "mark"
        if record.spout is not None and (record.checksum == 0 or record.failed):
            self.records.remove(root)
            acked = kernels.ACKED_MARKED if record.marked else kernels.ACKED
            return [(root, acked if record.checksum == 0 else kernels.FAILED_BY_BOLT, record.spout)]
        self.records.put(root, record)
        return []

    def rotate(self) -> Decided:
        self.tick += 1
        expired = self.records.rotate()
        too_old = [root for root in self.records if self.tick - self._at(root).born >= MAX_AGE]
        expired |= {root: self._at(root) for root in too_old}
        for root in too_old:
            self.records.remove(root)
        return [(root, self._end(record), record.spout) for root, record in expired.items()]

    def _end(self, record: Record) -> int:
        if record.spout is None:
            return kernels.ORPHANED
        return kernels.TOO_OLD if self.tick - record.born >= MAX_AGE else kernels.TIMED_OUT

    def _at(self, root: int) -> Record:
        record = self.records.get(root)
        assert record is not None
        return record


# Few roots and values, so that trees meet, complete and collide; extremes, so that no id is special.
ROOTS = st.sampled_from([0, 1, 2, 3, 2**63, 2**64 - 1, 2**64 - 2, 0xDEADBEEF])
VALS = st.sampled_from([0, 1, 2, 3, 2**63, 2**64 - 1])
ENTRIES = st.lists(st.tuples(ROOTS, VALS), max_size=6)


class SameOutcomes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = RuleLedger(LedgerSettings(tick_ms=10, max_age_ms=60, orphan_timeout_ms=20))
        self.plain = PlainLedger()

    def _decided(self, outcomes: Outcomes) -> Decided:
        return [
            (root, kind, None if kind == kernels.ORPHANED else self.ledger.spout(spout))
            for root, spout, kind in zip(
                outcomes.roots.tolist(), outcomes.spouts.tolist(), outcomes.kinds.tolist(), strict=True
            )
        ]

    @rule(entries=ENTRIES, spout=st.sampled_from(SPOUTS))
    def init(self, entries: list[tuple[int, int]], spout: SpoutAddress) -> None:
        expected = [decided for root, val in entries for decided in self.plain.apply("init", root, val, spout)]
        roots, vals = np.array(entries, dtype=np.uint64).reshape(-1, 2).T
        assert self._decided(self.ledger.init(roots, vals, spout)) == expected

    @rule(rule_=st.sampled_from(["ack", "mark"]), entries=ENTRIES)
    def ack_or_mark(self, rule_: str, entries: list[tuple[int, int]]) -> None:
        expected = [decided for root, val in entries for decided in self.plain.apply(rule_, root, val)]
        roots, vals = np.array(entries, dtype=np.uint64).reshape(-1, 2).T
        apply = self.ledger.ack if rule_ == "ack" else self.ledger.mark
        assert self._decided(apply(roots, vals)) == expected

    @rule(rule_=st.sampled_from(["fail", "reset"]), roots=st.lists(ROOTS, max_size=3))
    def fail_or_reset(self, rule_: str, roots: list[int]) -> None:
        expected = [decided for root in roots for decided in self.plain.apply(rule_, root)]
        apply = self.ledger.fail if rule_ == "fail" else self.ledger.reset
        assert self._decided(apply(np.array(roots, dtype=">u8"))) == expected

    @rule(ticks=st.integers(1, 3))
    def advance(self, ticks: int) -> None:
        expected = [decided for _ in range(ticks) for decided in self.plain.rotate()]
        decided = self._decided(self.ledger.advance(self.plain.tick))
        if ticks > 1:  # several cohorts at once come by key, and the age is that of their own tick
            assert sorted(d[0] for d in decided) == sorted(e[0] for e in expected)
        else:
            assert sorted(decided, key=lambda d: d[0]) == sorted(expected, key=lambda e: e[0])

    @invariant()
    def same_records(self) -> None:
        plain = {root: record for root in self.plain.records if (record := self.plain.records.get(root))}
        assert len(self.ledger) == len(plain)
        assert self.ledger.records() == {
            root: (record.checksum, record.spout is not None, record.failed, record.marked)
            for root, record in plain.items()
        }
        assert self.ledger.orphans == sum(record.spout is None for record in plain.values())

    @invariant()
    def oldest_birth(self) -> None:
        births = [record.born for root in self.plain.records if (record := self.plain.records.get(root))]
        assert self.ledger.oldest_birth() == (min(births) if births else None)


TestSameOutcomes = SameOutcomes.TestCase
