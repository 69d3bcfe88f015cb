"""The ledger of one partition, pure: roots and ticks, which are plain rising integers, in; outcomes out.

The rules live in `kernels`. A cohort is the set of records that expire at the same tick, so it is a bucket of a
RotatingMap. Only their sizes are kept; the table is searched for their members when a cohort that is not empty is due.

Many runs are applied at once, because a call of a kernel costs as much as applying a hundred entries.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acker_worker import kernels
from acker_worker.errors import LedgerError
from tuple_tree.ids import IdColumn
from tuple_tree.manifest import Manifest
from tuple_tree.messages import SpoutAddress

MAX_LOAD: Final = 0.66  # share of homes taken at which the table grows
GROWTH: Final = 1.25  # by how much: the load then lies between 0.53 and 0.66, 36 to 46 bytes a tree
MIN_LOAD: Final = 0.2  # share of homes taken at which the table shrinks to half of MAX_LOAD
SMALLEST: Final = 8_192
CHUNK: Final = 4_096  # roots a kernel call, for which there has to be room in the table
_SMALLEST_SHRUNK: Final = 2 * SMALLEST
_IDLE_SPOUTS: Final = 1_024
"""Spout tasks that are remembered; when there are more, those without an open tree are forgotten at the next tick."""

MULTIPLIER: Final = secrets.randbits(64) | 1  # of all roots in this process; see `kernels`
_U64: Final = np.uint64
_MULTIPLIER: Final = _U64(MULTIPLIER)
_INVERSE: Final = _U64(pow(MULTIPLIER, -1, 2**64))


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """When records expire: `orphan_timeout_ms` is the time-out of those whose spout is not known yet.

    A record that was touched within a tick expires at the start of the n-th tick after it, where n is the time-out in
    ticks, rounded up, plus one: so never before the time-out has passed, and at most a tick after.
    """

    tick_ms: int
    max_age_ms: int
    orphan_timeout_ms: int

    def __post_init__(self) -> None:
        if self.tick_ms < 1:
            raise LedgerError(f"a tick of {self.tick_ms} ms is invalid: use 1 or more")
        if self.max_age_ticks >= kernels.TICK_SPAN // 4:
            raise LedgerError(
                f"the largest tree age of {self.max_age_ms} ms is {self.max_age_ticks} ticks of {self.tick_ms} ms, "
                f"more than the ledger's {kernels.TICK_SPAN // 4 - 1}: make the tick longer"
            )

    @classmethod
    def of(cls, manifest: Manifest) -> "LedgerSettings":
        """The settings of a topology; a record of an unknown spout is kept for the longest timeout of any spout."""
        slowest = max((spout.timeout_ms for spout in manifest.spouts), default=manifest.max_tree_age_ms)
        return cls(manifest.tick_ms, manifest.max_tree_age_ms, slowest)

    def lifetime_ticks(self, timeout_ms: int) -> int:
        """Ticks from the last progress of a record to its expiry."""
        return min(-(-timeout_ms // self.tick_ms) + 1, self.max_age_ticks)

    @property
    def max_age_ticks(self) -> int:
        """Ticks from the birth of a record to its expiry at the latest."""
        return -(-self.max_age_ms // self.tick_ms) + 1


class Run(NamedTuple):
    """Roots to which a rule is applied, of shape `(n,)`, as are `vals`; of any byte order."""

    rule: int  # `kernels.INIT`, `ACK`, `FAIL`, `RESET` or `MARK`
    roots: IdColumn
    vals: IdColumn | None = None  # of inits, acks and marks
    spout: int = 0  # index of the owner of inits, from `Ledger.index_of`


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Decisions of a step of the ledger, in columns of shape `(n,)`."""

    roots: NDArray[np.uint64]
    spouts: NDArray[np.uint32]  # indices for `Ledger.spout`
    kinds: NDArray[np.uint8]  # `kernels.ACKED`, `ACKED_MARKED`, a `FailReason` number, or `kernels.ORPHANED`

    def __len__(self) -> int:
        return len(self.roots)

    def first(self, count: int) -> "Outcomes":
        return Outcomes(self.roots[:count], self.spouts[:count], self.kinds[:count])

    @classmethod
    def room(cls, count: int) -> "Outcomes":
        """Columns to be filled; memory is only taken for what is."""
        return cls(np.empty(count, np.uint64), np.empty(count, np.uint32), np.empty(count, np.uint8))


_NOTHING: Final = Outcomes.room(0)


class Ledger:
    """Checksums of the open tuple trees of one partition.

    Rules are applied at the tick that the ledger was last advanced to, and give their outcomes in order.
    """

    def __init__(self, settings: LedgerSettings) -> None:
        self.settings = settings
        self._capacity = SMALLEST
        self._spare = kernels.SPARE
        self._table = _empty_table(SMALLEST, kernels.SPARE)
        self._counts = np.zeros(kernels.COUNTS, dtype=np.int64)
        self._ring = 1 << (settings.max_age_ticks + 2).bit_length()
        self._expiring = np.zeros(self._ring, dtype=np.int64)
        self._born = np.zeros(self._ring, dtype=np.int64)
        self._spouts: list[SpoutAddress | None] = [None]
        self._spout_index: dict[SpoutAddress, int] = {}
        self._free_spouts: list[int] = []
        self._remembered_spouts = _IDLE_SPOUTS
        self._lifetimes = np.full(16, settings.lifetime_ticks(settings.orphan_timeout_ms), dtype=_U64)
        self._tick = 0
        self._oldest_tick = 0

    def apply(self, runs: Sequence[Run]) -> Outcomes:
        """Applies runs by rules 1 to 4 and 10, in order; a second init of an open root is ignored."""
        roots = np.concatenate([run.roots for run in runs], dtype=_U64)
        # Vals that are not read are any.
        vals = np.concatenate([run.roots if run.vals is None else run.vals for run in runs], dtype=_U64)
        rules = np.array([run.rule for run in runs], np.uint8)
        spouts = np.array([run.spout for run in runs], _U64)
        ends = np.cumsum([len(run.roots) for run in runs])
        decided = Outcomes.room(len(roots))
        start = done = 0
        while start < len(roots):
            stop = min(start + CHUNK, len(roots))
            self._make_room(stop - start)
            applied, done = kernels.apply(
                self._table,
                _U64(self._capacity),
                _MULTIPLIER,
                *(rules, spouts, ends, roots, vals, start, stop, done),
                _wrapped(self._tick),
                _U64(self.settings.max_age_ticks),
                self._lifetimes,
                *(self._counts, self._expiring, self._born),
                *(decided.roots, decided.spouts, decided.kinds),
            )
            if applied < stop:
                self._rebuild(self._capacity, 2 * self._spare)
            start = applied
        self._fit()
        return decided.first(done) if done else _NOTHING

    def advance(self, tick: int) -> Outcomes:
        """Rule 7: moves the clock on to `tick`, and removes what has fallen off death row; never moves it back.

        Entries of earlier ticks must have been applied.
        """
        if tick > self._tick and len(self._spout_index) > self._remembered_spouts:
            self._forget_idle_spouts()
        if not self.expires_by(tick):
            self._tick = max(self._tick, tick)
            return _NOTHING
        decided = Outcomes.room(len(self._table) // kernels.WORDS)
        done = kernels.expire(
            self._table,
            _U64(self._capacity),
            _INVERSE,
            # Ticks are compared modulo a span; within a ring all records expire.
            _wrapped(min(tick, self._tick + self._ring - 1)),
            _U64(self.settings.max_age_ticks),
            *(self._counts, self._expiring, self._born),
            *(decided.roots, decided.spouts, decided.kinds),
        )
        self._tick = tick
        self._fit()
        return decided.first(done)

    def expires_by(self, tick: int) -> bool:
        """Whether moving on to `tick` would remove anything."""
        if not len(self) or tick <= self._tick:
            return False
        if tick - self._tick >= self._ring:
            return True
        return any(self._expiring[due & (self._ring - 1)] for due in range(self._tick + 1, tick + 1))

    def oldest_birth(self) -> int | None:
        """The tick at which the oldest open record was born; None if there is no record."""
        if not len(self):
            return None
        mask = self._ring - 1
        self._oldest_tick = max(self._oldest_tick, self._tick - self.settings.max_age_ticks)
        while not self._born[self._oldest_tick & mask]:
            self._oldest_tick += 1
        return self._oldest_tick

    def index_of(self, spout: SpoutAddress) -> int:
        """The index under which a spout task's inits are applied. Raises `LedgerError` if there are too many."""
        index = self._spout_index.get(spout)
        if index is None:
            if self._free_spouts:
                index = self._free_spouts.pop()
                self._spouts[index] = spout
            else:
                index = len(self._spouts)
                if index >= kernels.SPOUT_LIMIT:
                    raise LedgerError(f"more than {kernels.SPOUT_LIMIT - 1} spout tasks have open trees")
                self._spouts.append(spout)
                if index >= len(self._lifetimes):
                    self._lifetimes = np.concatenate([self._lifetimes, self._lifetimes])
            self._spout_index[spout] = index
            self._lifetimes[index] = self.settings.lifetime_ticks(spout.timeout_ms)
        return index

    def _forget_idle_spouts(self) -> None:
        """Frees the indices of spout tasks without an open tree, so that they are bounded by the open trees."""
        used = set(np.unique(kernels.spouts_of(self._table.reshape(-1, kernels.WORDS)[:, 2])).tolist())
        for spout, index in list(self._spout_index.items()):
            if index not in used:
                del self._spout_index[spout]
                self._spouts[index] = None
                self._free_spouts.append(index)
        self._remembered_spouts = max(_IDLE_SPOUTS, 2 * len(self._spout_index))

    def spout(self, index: int) -> SpoutAddress:
        spout = self._spouts[index]
        if spout is None:
            raise LedgerError(f"spout index {index} names no spout: only orphans have it")
        return spout

    def oldest(self, count: int) -> list[tuple[int, int]]:
        """Root and tick of birth of the oldest open trees whose init was seen, the oldest first; for inspection."""
        slots = self._table.reshape(-1, kernels.WORDS)
        held = slots[slots[:, 2] & kernels.KNOWN != 0]
        # Ticks are kept modulo a span, so it is the ages that can be compared.
        ages = kernels.ages(held[:, 2], _wrapped(self._tick))
        first = np.argsort(ages, kind="stable")[::-1][:count]
        roots = held[first, 0] * _INVERSE
        return [(root, self._tick - age) for root, age in zip(roots.tolist(), ages[first].tolist(), strict=True)]

    def __len__(self) -> int:
        return int(self._counts[kernels.LIVE])

    @property
    def orphans(self) -> int:
        """Open records whose init has not been seen."""
        return int(self._counts[kernels.ORPHANS])

    @property
    def duplicate_inits(self) -> int:
        return int(self._counts[kernels.DUPLICATE_INITS])

    @property
    def load(self) -> float:
        return len(self) / self._capacity

    @property
    def table_bytes(self) -> int:
        return int(self._table.nbytes)

    def _make_room(self, arriving: int) -> None:
        needed = len(self) + arriving
        if needed > MAX_LOAD * self._capacity:
            self._rebuild(max(int(GROWTH * self._capacity), int(needed / MAX_LOAD) + 1), kernels.SPARE)

    def _fit(self) -> None:
        if self._capacity >= _SMALLEST_SHRUNK and len(self) < MIN_LOAD * self._capacity:
            self._rebuild(max(SMALLEST, int(2 * len(self) / MAX_LOAD)), kernels.SPARE)

    def _rebuild(self, capacity: int, spare: int) -> None:
        while True:
            table = _empty_table(capacity, spare)
            if kernels.rehash(self._table, table, _U64(capacity)):
                self._table, self._capacity, self._spare = table, capacity, spare
                return
            spare *= 2


def _empty_table(capacity: int, spare: int) -> NDArray[np.uint64]:
    table = np.zeros((capacity + spare) * kernels.WORDS, dtype=_U64)
    table[:: kernels.WORDS] = kernels.EMPTY
    return table


def _wrapped(tick: int) -> np.uint64:
    return _U64(tick % kernels.TICK_SPAN)


def warm_up() -> None:
    """Compiles the kernels, or loads them from numba's cache, before the first message comes."""
    ledger = Ledger(LedgerSettings(tick_ms=1, max_age_ms=2, orphan_timeout_ms=1))
    roots = np.arange(3, dtype=_U64)
    ledger.apply([Run(kernels.INIT, roots, roots, ledger.index_of(SpoutAddress("", 0, 1)))])
    ledger.advance(10)
    kernels.misrouted(roots, _U64(8), _U64(0))
    kernels.mix(roots)
    ledger._rebuild(SMALLEST, kernels.SPARE)
