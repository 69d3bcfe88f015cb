"""The rules of `acking-spec` as small functions over one flat table, compiled by numba.

The table is one `u8` array of 24-byte slots, key, checksum, meta: open-addressed, linearly probed and kept *sorted*
(see ADR 2). It is Robin Hood hashing (Celis, 1986) with ties broken by key, as in ordered hash tables (Amble, Knuth,
1974). A key is the root times an odd multiplier (a bijection), which is random in each process: with a known one,
roots could be chosen to share a home, and expiry be quadratic. An empty slot holds the largest key; the last slot is
always empty.

Meta, from the top: occupied (1 bit), spout known (1), failed (1), marked (1), spout (20), born (20), expires (20).
Ticks are kept modulo 2**20 and compared within half of that.
"""

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from tuple_tree.edges import FACTORS, STEP
from tuple_tree.messages import FailReason

WORDS: Final = 3
U64 = np.uint64
EMPTY: Final = U64(2**64 - 1)
_ZERO: Final = U64(0)
_27, _30, _31, _32 = map(U64, (27, 30, 31, 32))
_FIRST, _SECOND = map(U64, FACTORS)

OCCUPIED: Final = U64(1 << 63)
KNOWN: Final = U64(1 << 62)
FAILED: Final = U64(1 << 61)
MARKED: Final = U64(1 << 60)
_SPOUT_SHIFT: Final = U64(40)
_BORN_SHIFT: Final = U64(20)
SPOUT_LIMIT: Final = 1 << 20
TICK_SPAN: Final = 1 << 20
_SPOUT_MASK: Final = U64(SPOUT_LIMIT - 1)
_TICK_MASK: Final = U64(TICK_SPAN - 1)
_HALF_SPAN: Final = U64(TICK_SPAN >> 1)

INIT: Final = 0
ACK: Final = 1
FAIL: Final = 2
RESET: Final = 3
MARK: Final = 4

ACKED: Final = 0  # outcome kinds as the kernels write them
ACKED_MARKED: Final = 128  # acked, with a tuple that became a dead letter
FAILED_BY_BOLT: Final = int(FailReason.FAILED)
TIMED_OUT: Final = int(FailReason.TIMEOUT)
TOO_OLD: Final = int(FailReason.TOO_OLD)
ORPHANED: Final = 255  # left by rotation without an init: there is no notice

LIVE: Final = 0
ORPHANS: Final = 1
DUPLICATE_INITS: Final = 2
COUNTS: Final = 3

_AHEAD: Final = 12
SPARE: Final = 512  # slots after the last home, for the cluster that runs over the end


@intrinsic
def _prefetch_intrinsic(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
    """Asks the processor for the cache line of `array[index]`, for reading and writing."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        address = builder.bitcast(builder.gep(view.data, [args[1]]), cgutils.voidptr_t)
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        builder.call(function, [address, flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, index), codegen


_prefetch: Final[Any] = _prefetch_intrinsic


@njit(inline="always")
def _home(key: np.uint64, capacity: np.uint64) -> np.int64:
    return np.int64((key >> _32) * capacity >> _32)


@njit(inline="always")
def _seek(table: np.ndarray, capacity: np.uint64, key: np.uint64) -> np.int64:
    """Index of the key's first word, or of the slot before which it would stand."""
    at = _home(key, capacity) * WORDS
    while table[at] < key:
        at += WORDS
    return at


@njit(inline="always")
def _open_slot(table: np.ndarray, at: np.int64, key: np.uint64) -> bool:
    """Makes room for a key at `at` by shifting the rest of the cluster; False if the table's end is reached."""
    end = at
    while table[end + 2] != _ZERO:
        end += WORDS
    if end + WORDS >= len(table):
        return False
    while end > at:
        table[end] = table[end - 3]
        table[end + 1] = table[end - 2]
        table[end + 2] = table[end - 1]
        end -= WORDS
    table[at] = key
    return True


@njit(inline="always")
def _close_slot(table: np.ndarray, capacity: np.uint64, at: np.int64) -> None:
    """Deletes the entry at `at` and shifts back later ones that are not at home."""
    following = at + WORDS
    while table[following + 2] != _ZERO and _home(table[following], capacity) * WORDS < following:
        table[at] = table[following]
        table[at + 1] = table[following + 1]
        table[at + 2] = table[following + 2]
        at = following
        following += WORDS
    table[at] = EMPTY
    table[at + 1] = _ZERO
    table[at + 2] = _ZERO


@njit(inline="always")
def _born(meta: np.uint64) -> np.uint64:
    return meta >> _BORN_SHIFT & _TICK_MASK


@njit(inline="always")
def _expires(meta: np.uint64) -> np.uint64:
    return meta & _TICK_MASK


@njit(inline="always")
def _spout(meta: np.uint64) -> np.uint64:
    return meta >> _SPOUT_SHIFT & _SPOUT_MASK


@njit(inline="always")
def _restart(
    meta: np.uint64, tick: np.uint64, lifetime: np.uint64, max_age: np.uint64, expiring: np.ndarray
) -> np.uint64:
    """Puts a record back into the nursery: its cohort is the tick at which it now expires."""
    before = _expires(meta)
    left = max_age - (tick - _born(meta) & _TICK_MASK)
    after = tick + min(lifetime, left) & _TICK_MASK
    if before != after:
        expiring[before & U64(len(expiring) - 1)] -= 1
        expiring[after & U64(len(expiring) - 1)] += 1
    return meta ^ before ^ after


@njit(inline="always")
def _forget(meta: np.uint64, counts: np.ndarray, expiring: np.ndarray, born: np.ndarray) -> None:
    expiring[_expires(meta) & U64(len(expiring) - 1)] -= 1
    born[_born(meta) & U64(len(born) - 1)] -= 1
    counts[LIVE] -= 1
    if not meta & KNOWN:
        counts[ORPHANS] -= 1


@njit(nogil=True, cache=True)
def apply(
    table: np.ndarray,
    capacity: np.uint64,
    multiplier: np.uint64,
    rules: np.ndarray,
    spouts: np.ndarray,
    ends: np.ndarray,
    roots: np.ndarray,
    vals: np.ndarray,
    start: int,
    stop: int,
    done: int,
    tick: np.uint64,
    max_age: np.uint64,
    lifetimes: np.ndarray,
    counts: np.ndarray,
    expiring: np.ndarray,
    born: np.ndarray,
    out_roots: np.ndarray,
    out_spouts: np.ndarray,
    out_kinds: np.ndarray,
) -> tuple[int, int]:
    """Applies runs of roots, each by a rule of its own, in order.

    Args:
        table: the slots, flat, shape `(WORDS * slots,)`, dtype u8.
        capacity: number of homes; the table has some more slots.
        multiplier: odd; a root times this is its key.
        rules: shape `(runs,)`, u1; INIT, ACK, FAIL, RESET or MARK for each run.
        spouts: shape `(runs,)`, u8; index of the owner; read by INIT only.
        ends: shape `(runs,)`, i8, rising; index after the last root of each run.
        roots: shape `(n,)`, native u8.
        vals: shape `(n,)`, native u8; read by INIT, ACK and MARK only.
        start: index of the first root to apply.
        stop: index after the last; at most n and the last of `ends`.
        done: how many outcomes were written before.
        tick: now, modulo TICK_SPAN.
        max_age: largest tree age in ticks, below half of TICK_SPAN.
        lifetimes: shape `(spouts,)`, u8; ticks without progress by spout index, index 0 for an unknown spout.
        counts: shape `(COUNTS,)`, i8; kept up to date.
        expiring: shape `(2**k,)`, i8; live records by the tick at which they expire.
        born: shape `(2**k,)`, i8; live records by the tick at which they were born.
        out_roots, out_spouts, out_kinds: shape `(>= done + stop - start,)`, u8, u4, u1; filled with the outcomes.

    Returns:
        The index up to which roots were applied (less than `stop` only if the table's end was hit: grow it and continue
        from there), and how many outcomes were written in all.
    """
    run = 0
    for i in range(start, min(start + _AHEAD, stop)):
        _prefetch(table, _home(roots[i] * multiplier, capacity) * WORDS)
    while start < stop:
        while ends[run] <= start:
            run += 1
        rule = rules[run]
        spout = spouts[run]
        last = min(ends[run], stop)
        for i in range(start, last):
            if i + _AHEAD < stop:
                _prefetch(table, _home(roots[i + _AHEAD] * multiplier, capacity) * WORDS)
            key = roots[i] * multiplier
            at = _seek(table, capacity, key)
            meta = table[at + 2] if table[at] == key else _ZERO
            if meta == _ZERO:
                if rule == RESET:
                    continue  # there is no record whose clock could start again
                if not _open_slot(table, at, key):
                    return i, done
                checksum = _ZERO
                meta = OCCUPIED | tick << _BORN_SHIFT | tick
                expiring[tick & U64(len(expiring) - 1)] += 1
                born[tick & U64(len(born) - 1)] += 1
                counts[LIVE] += 1
                counts[ORPHANS] += 1
            else:
                checksum = table[at + 1]
            if rule == INIT:
                if meta & KNOWN:
                    counts[DUPLICATE_INITS] += 1
                    continue
                checksum ^= vals[i]
                meta |= KNOWN | spout << _SPOUT_SHIFT
                counts[ORPHANS] -= 1
            elif rule == ACK:
                checksum ^= vals[i]
            elif rule == MARK:
                checksum ^= vals[i]
                meta |= MARKED
            elif rule == FAIL:
                meta |= FAILED
            if meta & KNOWN and (checksum == _ZERO or meta & FAILED):
                out_roots[done] = roots[i]
                out_spouts[done] = _spout(meta)
                if checksum != _ZERO:
                    out_kinds[done] = FAILED_BY_BOLT
                else:
                    out_kinds[done] = ACKED_MARKED if meta & MARKED else ACKED
                done += 1
                _forget(meta, counts, expiring, born)
                _close_slot(table, capacity, at)
            else:
                table[at + 1] = checksum
                table[at + 2] = _restart(meta, tick, lifetimes[_spout(meta)], max_age, expiring)
        start = last
    return stop, done


@njit(nogil=True, cache=True)
def mix(column: np.ndarray) -> np.ndarray:
    """`tuple_tree.edges.mix`, compiled: a third of its time for a batch of a thousand."""
    for i in range(len(column)):
        edge = column[i]
        edge = (edge ^ edge >> _30) * _FIRST
        edge = (edge ^ edge >> _27) * _SECOND
        edge ^= edge >> _31
        column[i] = STEP if edge == _ZERO else edge
    return column


@njit(nogil=True, cache=True)
def misrouted(roots: np.ndarray, partitions: np.uint64, partition: np.uint64) -> int:
    """Index of the first root that belongs to another partition, or -1.

    Args:
        roots: shape `(n,)`, native u8.
        partitions: P of `root mod P`.
        partition: the number of this one.
    """
    rest = partitions - U64(1)
    if partitions & rest == _ZERO:  # a power of two, as the default is: no division
        for i in range(len(roots)):
            if roots[i] & rest != partition:
                return i
    else:
        for i in range(len(roots)):
            if roots[i] % partitions != partition:
                return i
    return -1


@njit(nogil=True, cache=True)
def expire(
    table: np.ndarray,
    capacity: np.uint64,
    inverse: np.uint64,
    tick: np.uint64,
    max_age: np.uint64,
    counts: np.ndarray,
    expiring: np.ndarray,
    born: np.ndarray,
    out_roots: np.ndarray,
    out_spouts: np.ndarray,
    out_kinds: np.ndarray,
) -> int:
    """Removes the records that expire at `tick` or before; see `apply` for the arguments.

    Args:
        inverse: of the multiplier, modulo 2**64; a key times this is its root.
        out_roots, out_spouts, out_kinds: as long as the table has slots.

    Returns:
        How many outcomes were written.
    """
    done = 0
    at = np.int64(0)
    while at < len(table):
        meta = table[at + 2]
        if meta == _ZERO or (tick - _expires(meta) & _TICK_MASK) >= _HALF_SPAN:
            at += WORDS
            continue
        out_roots[done] = table[at] * inverse
        out_spouts[done] = _spout(meta)
        if not meta & KNOWN:
            out_kinds[done] = ORPHANED
        elif (_expires(meta) - _born(meta) & _TICK_MASK) == max_age:
            out_kinds[done] = TOO_OLD
        else:
            out_kinds[done] = TIMED_OUT
        done += 1
        _forget(meta, counts, expiring, born)
        _close_slot(table, capacity, at)
    return done


@njit(nogil=True, cache=True)
def rehash(source: np.ndarray, target: np.ndarray, capacity: np.uint64) -> bool:
    """Copies all records into an empty table of another capacity, in order; False if its end was hit."""
    free = np.int64(0)
    for at in range(0, len(source), WORDS):
        if source[at + 2] == _ZERO:
            continue
        to = max(_home(source[at], capacity) * WORDS, free)
        if to + WORDS >= len(target):
            return False
        target[to] = source[at]
        target[to + 1] = source[at + 1]
        target[to + 2] = source[at + 2]
        free = to + WORDS
    return True


def ages(metas: np.ndarray, tick: np.uint64) -> np.ndarray:
    """Ticks since records were born, by their metas; shape `(n,)`, i8. For inspection, so it is not compiled."""
    return (tick - (metas >> _BORN_SHIFT & _TICK_MASK) & _TICK_MASK).astype(np.int64)


def spouts_of(metas: np.ndarray) -> np.ndarray:
    """The spout indices of records, by their metas; shape `(n,)`, u8. Compiled code is not needed: it runs rarely."""
    return metas >> _SPOUT_SHIFT & _SPOUT_MASK
