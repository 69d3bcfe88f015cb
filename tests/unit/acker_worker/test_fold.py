"""The fold around the ledger: the spout of each outcome, bad records, and time."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acker_worker import kernels
from acker_worker.fold import FULL, LogRecord
from acker_worker.ledger import Ledger, Run
from tests.ack_log import SETTINGS, SPOUT, TICK_MS, Log, column, new_fold, outcomes
from tests.seeds import each_seed
from tests.unit.acker_worker.trees import Trees
from tuple_tree import edges
from tuple_tree.ids import IdColumn
from tuple_tree.messages import AckBatch, FailReason, encode_ack_batch


def unusable(**columns: IdColumn) -> bytes:
    return encode_ack_batch(AckBatch("b/0", bytes(16), 0, **columns))  # type: ignore[arg-type]


def test_unusable_records_are_rejected_and_the_fold_continues() -> None:
    values = {
        "not-avro": b"hello, is this the right topic?",
        "uneven-columns": unusable(ack_roots=column(1), ack_vals=column(1, 2)),
        "no-spout": unusable(init_roots=column(1), init_vals=column(1)),
        "misrouted": unusable(ack_roots=column(2, 3), ack_vals=column(1, 2)),
    }
    log, fold = Log(), new_fold(partitions=2)
    bad = [log.append(value) for value in values.values()]
    step = fold.apply([log.send(inits=[(8, 8)]), *bad, log.send(acks=[(8, 8)])])
    assert [(rejected.record, rejected.reason) for rejected in step.rejected] == list(zip(bad, values, strict=True))
    assert [outcome for _, _, outcome in outcomes(step)] == ["ack"]


@given(st.lists(st.integers(0, 2**64 - 1)))
@example([0])
def test_the_compiled_mixer_makes_the_same_edges(numbers: list[int]) -> None:
    some = np.array(numbers, np.uint64)
    assert kernels.mix(some.copy()).tolist() == edges.mix(some.copy()).tolist()


def test_acks_in_runs_complete_their_trees_and_no_others() -> None:
    log, fold = Log(), new_fold()
    vals, roots = edges.edge_column(7, 0, 3_000), np.arange(3_000, dtype=np.uint64)
    acked = AckBatch("runs/0", bytes(16), 0, ack_roots=roots[500:2_500], ack_vals=vals[500:2_500])
    value = encode_ack_batch(acked)
    assert len(value) < 8.1 * 2_000
    step = fold.apply([log.send(inits=list(zip(roots.tolist(), vals.tolist(), strict=True))), log.append(value)])
    assert sorted(root for _, root, _ in outcomes(step)) == list(range(500, 2_500))
    assert {outcome for _, _, outcome in outcomes(step)} == {"ack"}


def test_time_is_that_of_the_records_and_never_decreases() -> None:
    log, fold = Log(), new_fold()
    fold.apply([log.send(inits=[(1, 1)])])
    log.tick(2)
    fold.apply([log.send(writer="c/0")])
    late = LogRecord(2, log.now_ms - 5 * TICK_MS, log.send(inits=[(2, 2)]).value)
    fold.apply([late])
    assert fold.clock_ms == log.now_ms
    log.tick(1)
    # The first sent its last batch three ticks ago. The second came with a clock that was behind, but only just now.
    assert [(root, outcome) for _, root, outcome in outcomes(fold.apply([log.send(writer="c/0")]))] == [(1, "timeout")]


def test_acks_of_a_superseded_session_change_no_tree() -> None:
    """The process was replaced while its batch was on the way, and its successor has read the input again."""
    log, fold = Log(), new_fold()
    before, after = bytes(16), bytes([1]) * 16
    for session in (before, after):
        log.send(session=session, opens=True)
    log.send(writer="s/0", inits=[(1, 5)])
    log.send(session=before, acks=[(1, 5 ^ 7)])
    log.send(session=after, acks=[(1, 5 ^ 9)])
    log.send(writer="c/0", acks=[(1, 9)])
    assert [outcome for _, _, outcome in outcomes(fold.apply(log.records))] == ["ack"]


@pytest.mark.parametrize("faults", [False, True])
def test_a_tree_is_acked_when_all_of_its_tuples_are_and_not_before(faults: bool) -> None:
    each_seed(lambda seed: Trees(seed, faults=faults).run(3_000))


def test_the_message_of_a_fail_survives_an_earlier_outcome() -> None:
    log = Log()
    log.send(inits=[(1, 5)], acks=[(1, 5)])
    log.send(fails=[1], message="too late")
    log.send(inits=[(1, 7)])
    notified = new_fold().apply(log.records).outcomes[SPOUT]
    assert [roots.tolist() for roots in notified.acked] == [[1]]
    assert notified.failed == [(1, FailReason.FAILED, "too late", "b/0")]


def test_entries_of_many_batches_and_byte_orders_are_applied_in_one_call() -> None:
    ledger = Ledger(SETTINGS)
    spout = ledger.index_of(SPOUT)
    roots = np.arange(1, 20 * FULL, dtype=np.uint64)
    runs = [Run(kernels.INIT, column(root), column(root), spout) for root in range(1, 300)]
    others = roots[299:].astype(">u8")
    assert not len(ledger.apply([*runs, Run(kernels.INIT, others, others, spout)]))
    assert len(ledger) == len(roots)
    assert ledger.apply([Run(kernels.ACK, roots, roots)]).roots.tolist() == roots.tolist()
    assert not len(ledger)


def test_counters() -> None:
    log, fold = Log(), new_fold()
    first = log.send(inits=[(n, n) for n in range(1, 6)])
    log.send(inits=[(1, 1)], acks=[(1, 1)], fails=[2], resets=[3])
    log.send(acks=[(9, 9)])
    log.append(first.value)
    log.send(session=b"x" * 16, opens=True)
    log.send(acks=[(4, 4)])
    fold.apply(log.records)
    log.tick(50)
    fold.advance(log.now_ms)
    counters = fold.counters
    assert (counters.records, counters.inits, counters.acks, counters.fails, counters.resets) == (6, 6, 2, 1, 1)
    assert (counters.duplicate_inits, counters.orphans_expired, fold.ledger.orphans) == (1, 1, 0)
    assert (counters.repeated_batches, counters.superseded_batches) == (1, 1)
    assert (counters.trees_acked, counters.trees_failed, counters.timeouts) == (1, 1, 3)
