"""Mutants of the acker: rules of the ledger, the fold, sessions, commits, notices."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numba import njit

from acker_worker import acker_loop, kernels
from acker_worker.fold import PartitionFold
from acker_worker.ledger import Ledger, LedgerSettings, Outcomes, Run
from acker_worker.notifier import Notifier
from acker_worker.sessions import Sessions, Standing
from kafka_clients import log_reader
from tests.mutants.patches import Patches, mutant, register, replaces, wrapped
from tuple_tree.messages import FailReason

_CASES: Final = "tests/unit/acker_worker/test_cases.py::test_cases"
_REBUILD: Final = "tests/unit/acker_worker/test_rebuild.py"
_WORKER: Final = "tests/kafka/test_worker.py"
_CONTRACT: Final = "tests/unit/sdk/test_contract.py::TestInMemory"


@mutant("ledger", _CASES)
def progress_does_not_restart_the_clock_of_a_tree(patches: Patches) -> None:
    # Within a compiled kernel: the function is replaced, and the kernel compiled again.
    restart, born, expires, known = kernels._restart, kernels._born, kernels._expires, kernels.KNOWN

    @njit(inline="always")
    def begin(meta: Any, tick: Any, lifetime: Any, max_age: Any, expiring: Any) -> Any:
        if meta & known and expires(meta) != born(meta):
            return meta
        return restart(meta, tick, lifetime, max_age, expiring)

    patches.set(kernels, "_restart", begin)
    patches.set(kernels, "apply", njit(nogil=True)(kernels.apply.py_func))


@mutant("ledger", _CASES)
@replaces(Ledger, "apply")
def a_second_init_is_applied(original: Any, ledger: Ledger, runs: Sequence[Run]) -> Any:
    found = []
    for run in runs:
        open_roots = [root for root, _ in ledger.oldest(len(ledger))] if run.rule == kernels.INIT else []
        again = np.isin(run.roots, np.array(open_roots, np.uint64))
        found.append(original(ledger, [run]))
        if again.any() and run.vals is not None:
            found.append(original(ledger, [Run(kernels.ACK, run.roots[again], run.vals[again])]))
    return Outcomes(*(np.concatenate([getattr(of, name) for of in found]) for name in Outcomes.__slots__))


@mutant("ledger", _CASES)
def a_mark_is_an_ack(patches: Patches) -> None:
    patches.set(kernels, "MARK", kernels.ACK)


@mutant("ledger", _CASES)
@replaces(Ledger, "apply")
def a_mark_has_no_val(original: Any, ledger: Ledger, runs: Sequence[Run]) -> Any:
    def without(run: Run) -> Run:
        return run._replace(vals=np.zeros_like(run.vals)) if run.rule == kernels.MARK else run

    return original(ledger, [without(run) for run in runs])


@mutant("ledger", _CASES)
def a_fail_counts_though_the_tree_is_complete(patches: Patches) -> None:
    failed: dict[int, set[int]] = defaultdict(set)  # ledger → roots that are open

    @patches.wrap(Ledger, "apply")
    def apply(original: Any, ledger: Ledger, runs: Sequence[Run]) -> Outcomes:
        found: Outcomes = original(ledger, runs)
        roots = failed[id(ledger)]
        for at, root in enumerate(found.roots.tolist()):
            if root in roots:
                found.kinds[at] = FailReason.FAILED
        roots.difference_update(found.roots.tolist())
        roots.update(root for run in runs if run.rule == kernels.FAIL for root in run.roots.tolist())
        return found

    @patches.wrap(Ledger, "advance")
    def advance(original: Any, ledger: Ledger, tick: int) -> Outcomes:
        expired: Outcomes = original(ledger, tick)
        failed[id(ledger)].difference_update(expired.roots.tolist())
        return expired


@mutant("sessions", "tests/unit/acker_worker/test_fold.py::test_acks_of_a_superseded_session_change_no_tree")
@replaces(Sessions, "judge")
def a_batch_of_a_superseded_session_counts(original: Any, *batch: Any, **named: Any) -> Any:
    standing = original(*batch, **named)
    return Standing.CURRENT if standing is Standing.SUPERSEDED else standing


@mutant("fold", f"{_REBUILD}::test_a_rebuild_begins_a_tick_before_the_oldest_open_tree")
@replaces(Ledger, "oldest_birth")
def a_rebuild_begins_in_the_tick_of_the_oldest_tree(original: Any, ledger: Ledger) -> Any:
    born = original(ledger)
    return None if born is None else born + 1


@mutant("fold", f"{_REBUILD}::test_kills_change_no_outcome")
@replaces(PartitionFold, "progress")
def one_offset_too_far_is_committed(original: Any, fold: PartitionFold) -> Any:
    reached = original(fold)
    return reached if fold.rebuilding else replace(reached, offset=reached.offset + 1)


@mutant("acker", f"{_WORKER}::test_a_worker_that_ends_between_notices_and_commit_changes_no_outcome")
def it_commits_although_notices_are_not_delivered(patches: Patches) -> None:
    class Careless(Notifier):
        def drain(self, timeout_s: float) -> bool:
            super().drain(timeout_s)
            return True

    patches.set(acker_loop, "Notifier", Careless)


@mutant("acker", f"{_WORKER}::test_the_high_watermark_is_read_before_trees_expire")
def the_clock_advances_by_an_old_high_watermark(patches: Patches) -> None:
    known: dict[tuple[str, int], Any] = {}

    @patches.wrap(log_reader, "watermarks")
    def watermarks(original: Any, client: Any, at: Any, *rest: Any) -> Any:
        place = at.topic, at.partition
        if place not in known:
            known[place] = original(client, at, *rest)
        return known[place]


@mutant("notifier", f"{_CONTRACT}::test_outcomes_reach_the_task_that_emitted")
@replaces(Notifier, "notify")
def a_notice_goes_to_the_first_task_of_its_spout(
    original: Any, notifier: Notifier, partition: int, position: int, outcomes: Any
) -> Any:
    for spout, of in outcomes.items():
        original(notifier, partition, position, {replace(spout, task=0): of})


register(
    {
        _CASES: {
            "ledger: a tree expires a tick early": wrapped(
                LedgerSettings,
                "lifetime_ticks",
                lambda original, settings, timeout_ms: original(settings, timeout_ms) - 1,
            ),
        },
    }
)
