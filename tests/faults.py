"""Checks the tests: breaks the code in one place at a time, and expects a test of `make test` to fail.

    python -m tests.faults                    each fault against the tests that are known to find it
    python -m tests.faults --find [NAME ...]  each fault against all plain tests, and prints those that find it

The faults are put into a copy of the checkout. `docs/contributing/checking-the-tests.md` has the list.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_PARTS: Final = (("tests/unit", "-n", "3"), ("tests/kafka", "-n", "3"), ("tests/spark",))
_AT_A_TIME: Final = 2
_FAILED: Final = 1  # pytest's exit code when tests ran and some failed; others mean that the check itself is broken


@dataclass(frozen=True)
class Fault:
    """A deliberate mistake.

    Attributes:
        name: what is wrong.
        path: of the file.
        before: the only occurrence of this text ...
        after: ... is replaced by this one.
        test: the id of a plain test that fails then.
    """

    name: str
    path: str
    before: str
    after: str
    test: str


FAULTS: Final = (
    Fault(
        "ledger: an ack does not restart the clock of its tree",
        "acker_worker/kernels.py",
        "                table[at + 2] = _restart(meta, tick, lifetimes[_spout(meta)], max_age, expiring)",
        "                table[at + 2] = (\n                    meta if rule == ACK and meta & KNOWN\n"
        "                    else _restart(meta, tick, lifetimes[_spout(meta)], max_age, expiring)\n                )",
        "tests/unit/acker_worker/test_cases.py::test_cases",
    ),
    Fault(
        "ledger: a second init is applied",
        "acker_worker/kernels.py",
        "                    counts[DUPLICATE_INITS] += 1\n                    continue",
        "                    counts[DUPLICATE_INITS] += 1\n                    counts[ORPHANS] += 1",
        "tests/unit/acker_worker/test_cases.py::test_cases",
    ),
    Fault(
        "ledger: failed is tested before zero",
        "acker_worker/kernels.py",
        "out_kinds[done] = ACKED if checksum == _ZERO else FAILED_BY_BOLT",
        "out_kinds[done] = FAILED_BY_BOLT if meta & FAILED else ACKED",
        "tests/unit/acker_worker/test_cases.py::test_cases",
    ),
    Fault(
        "ledger: a tree expires a tick early",
        "acker_worker/kernels.py",
        "    after = tick + min(lifetime, left) & _TICK_MASK",
        "    after = tick + min(lifetime, left) - U64(1) & _TICK_MASK",
        "tests/unit/acker_worker/test_cases.py::test_cases",
    ),
    Fault(
        "fold: the session of a batch is ignored",
        "acker_worker/sessions.py",
        "        elif known.opened is not None and session != known.opened:\n            return Standing.SUPERSEDED",
        "",
        "tests/unit/acker_worker/test_sessions.py::test_an_opening_supersedes_earlier_sessions_permanently",
    ),
    Fault(
        "fold: rebuild_from has no margin",
        "acker_worker/fold.py",
        "_MARGIN_TICKS: Final = 1",
        "_MARGIN_TICKS: Final = 0",
        "tests/unit/acker_worker/test_rebuild.py::test_a_rebuild_begins_a_tick_before_the_oldest_open_tree",
    ),
    Fault(
        "acker: one offset too far is committed",
        "acker_worker/fold.py",
        "        return Progress(self.position, rebuild_from,",
        "        return Progress(self.position + 1, rebuild_from,",
        "tests/unit/acker_worker/test_rebuild.py::test_kills_change_no_outcome",
    ),
    Fault(
        "acker: commits although notices are not delivered",
        "acker_worker/acker_loop.py",
        "        if not self._notifier.drain(drain_s):",
        "        if self._notifier.drain(0) is None:",
        "tests/kafka/test_worker.py::test_a_worker_that_ends_between_notices_and_commit_changes_no_outcome",
    ),
    Fault(
        "acker: the clock moves on without a fresh high watermark",
        "acker_worker/acker_loop.py",
        "            if owned.end is not None and owned.end >= high:",
        "            if owned.end is not None and high >= 0:",
        "tests/kafka/test_worker.py::test_the_high_watermark_is_read_before_trees_expire",
    ),
    Fault(
        "anchors: the edge of the second anchor is not XORed into its ack",
        "tuple_tree/input_batch.py",
        "        np.bitwise_xor.at(self._out, places, edges)",
        "        np.bitwise_xor.at(self._out, places[:1], edges[:1])",
        "tests/unit/sdk/test_contract.py::TestInMemory::test_several_anchors_put_a_tuple_into_all_their_trees",
    ),
    Fault(
        "outbox: the vals of acks are computed before the edges of open packs are joined",
        "spout_sdk/emitting/outbox.py",
        "        sealed = [(pack, pack.seal(self._next_id)) for pack in self._open]\n        self._open.clear()\n"
        "        inits, acks = self._inits(), self._acks()\n",
        "        inits, acks = self._inits(), self._acks()\n"
        "        sealed = [(pack, pack.seal(self._next_id)) for pack in self._open]\n        self._open.clear()\n",
        "tests/unit/sdk/test_basic_bolt.py::"
        "test_every_ack_val_holds_the_edges_of_all_children_which_were_sent_before",
    ),
    Fault(
        "writes: a tuple is acked with the first of its records",
        "spout_sdk/bolts/pending_writes.py",
        "            elif left is not None and left > 1:",
        "            elif left is not None and left > 2:",
        "tests/unit/sdk/test_pending_writes.py::test_a_tree_fails_if_its_second_record_is_not_delivered",
    ),
    Fault(
        "ack log: an input is settled before all its batches are delivered",
        "spout_sdk/emitting/ack_log.py",
        "            while self._sent and not self._sent[0].undelivered:",
        "            while self._sent:",
        "tests/unit/sdk/test_ack_log.py::test_inputs_are_settled_when_all_batches_of_their_flush_are_delivered",
    ),
    Fault(
        "packs: the first tuple of a record settles its offset",
        "spout_sdk/bolts/tuple_reader.py",
        "        self._inputs.open(pack)",
        "        pack.left = 1\n        self._inputs.open(pack)",
        "tests/unit/sdk/test_bolt_loop.py::"
        "test_a_task_that_is_revoked_during_a_read_continues_at_the_committed_offset",
    ),
    Fault(
        "packs: halves of a pack that is too large keep the anchors of the whole",
        "tuple_tree/packs.py",
        "part.part(half, len(rows))",
        "part._replace(rows=part.rows[half:])",
        "tests/unit/sdk/test_outbox.py::test_anchors_count_for_the_size_of_a_record",
    ),
    Fault(
        "packs: the parts of a pack have the same edges",
        "tuple_tree/anchors.py",
        "        first = self.first + begin",
        "        first = self.first",
        "tests/unit/sdk/test_outbox.py::test_parts_of_a_pack_that_is_too_large_have_the_edges_that_were_joined",
    ),
    Fault(
        "offset manager: a hole is passed",
        "tuple_tree/offsets.py",
        "        if offset != open_[first]:\n            self._ahead.add(offset)\n            return",
        "        if offset != open_[first]:\n            first = open_.index(offset)",
        "tests/unit/sdk/test_contract.py::TestInMemory::test_only_settled_inputs_are_committed",
    ),
    Fault(
        "commits: a bolt commits one offset too far",
        "spout_sdk/delivery/delivery_guarantees.py",
        "{partition: offset for partition, offset in offsets.items() if offset is not None}",
        "{partition: offset + 1 for partition, offset in offsets.items() if offset is not None}",
        "tests/unit/sdk/test_bolt_loop.py::test_at_least_once_commits_up_to_the_first_input_that_is_open",
    ),
    Fault(
        "commits: at_most_once commits after it has executed",
        "spout_sdk/delivery/delivery_guarantees.py",
        "(record.offset() or 0) + 1",
        "(record.offset() or 0)",
        "tests/unit/sdk/test_bolt_loop.py::test_at_most_once_commits_before_it_executes",
    ),
    Fault(
        "transactions: the offsets of the inputs are left out",
        "spout_sdk/delivery/transactional_sink.py",
        "        self._send_offsets(offsets, group)\n",
        "",
        "tests/kafka/test_guarantees.py::test_tasks_that_move_in_order_lose_and_repeat_nothing",
    ),
    Fault(
        "windows: what was settled before is held again",
        "spout_sdk/windows/fold.py",
        "            if self._is_gone(tuple_):",
        "            if self._is_gone(tuple_) and self._manager is None:",
        "tests/unit/sdk/test_window_fold.py::test_each_window_closes_once_after_any_reread",
    ),
    Fault(
        "windows: a task does not continue at the position of its predecessor",
        "spout_sdk/delivery/delivery_guarantees.py",
        "                    task.resume(at.offset, at.metadata)",
        "                    task.resume(at.offset, None)",
        "tests/kafka/test_windows.py",
    ),
    Fault(
        "windows: what was emitted for a tuple that stays is not acked ahead",
        "spout_sdk/windows/adapter.py",
        "        if self._carries:",
        "        if self._carries and window.start > window.end:",
        "tests/unit/sdk/test_windows_exactly_once.py",
    ),
    Fault(
        "async bolt: with exactly_once inputs are settled as they end",
        "spout_sdk/bolts/async_adapter.py",
        '        self._in_order = context.manifest.guarantee == "exactly_once"',
        "        self._in_order = False",
        "tests/unit/sdk/test_async_bolt.py::test_with_exactly_once_records_are_settled_whole_and_in_order",
    ),
    Fault(
        "codec: a column is lost",
        "tuple_tree/messages.py",
        "pack_ids(getattr(batch, name)) for name in _ACK_COLUMNS",
        'pack_ids(getattr(batch, name)) if name != "reset_roots" else b"" for name in _ACK_COLUMNS',
        "tests/unit/tuple_tree/test_codec.py::test_the_pinned_batches",
    ),
    Fault(
        "routing: the ack partition is that of the signed root",
        "tuple_tree/routing.py",
        "    return root % partitions",
        "    return abs(root - 2**64 if root >= 2**63 else root) % partitions",
        "tests/unit/tuple_tree/test_routing.py::test_the_root_is_read_as_unsigned",
    ),
    Fault(
        "routing: fields grouping hashes with another seed",
        "tuple_tree/routing.py",
        "HASH_SEED: Final = 42",
        "HASH_SEED: Final = 41",
        "tests/unit/tuple_tree/test_routing.py::test_pinned_tasks",
    ),
    Fault(
        "notifier: a notice goes to the first task of its spout",
        "acker_worker/notifier.py",
        "                self._send(spout.topic, spout.task, encode_notice_batch(notice)",
        "                self._send(spout.topic, 0, encode_notice_batch(notice)",
        "tests/unit/sdk/test_contract.py::TestInMemory::test_outcomes_reach_the_task_that_emitted",
    ),
    Fault(
        "bolt: a dead letter does not fail its trees",
        "spout_sdk/bolts/outcomes.py",
        '            self._outbox.fail(root, f"{self._component}: dead letter, {error}")',
        "            self._outbox.reset(root)",
        "tests/unit/sdk/test_contract.py::TestInMemory::test_a_dead_letter_fails_its_trees_and_the_bolt_continues",
    ),
    Fault(
        "Kafka spout: a replay uses its root again",
        "spout_sdk/kafka_spout/partitions.py",
        "(self._first_attempt + _number(failures)) % MAX_ATTEMPTS",
        "self._first_attempt % MAX_ATTEMPTS",
        "tests/unit/sdk/test_kafka_spout_crashes.py",
    ),
    Fault(
        "Spark spout: a replay uses its root again",
        "spark_jobs/outcomes.py",
        "self._put_due(places, notices.attempts[rows] + 1,",
        "self._put_due(places, notices.attempts[rows],",
        "tests/unit/spark/test_outcomes.py::test_failures_become_due_under_the_next_attempt",
    ),
    Fault(
        "Spark: the edge of an input is left out of its ack",
        "spark_jobs/inbox.py",
        "identity, roots, edges)",
        "identity, roots, np.zeros_like(edges))",
        "tests/unit/spark/test_two_writes.py::test_rows_arrive_and_trees_complete",
    ),
    Fault(
        "Spark spout: inits follow their tuples",
        "spark_jobs/packing.py",
        "            if self._size >= _HELD:\n                yield record_rows(self._take())",
        "            if self._size >= _HELD:\n                yield record_rows(self._records)",
        "tests/unit/spark/test_spout_writes.py::test_inits_come_before_their_tuples",
    ),
    Fault(
        "Spark spout: an attempt has the edges of the one before",
        "spark_jobs/packing.py",
        "            self._seed = new_seed()",
        "            self._seed = 0",
        "tests/unit/spark/test_spout_writes.py::test_a_second_init_of_a_tree_that_failed_completes_nothing",
    ),
    Fault(
        "Spark: children share an edge",
        "tuple_tree/edges.py",
        "[edge(seed, number) for number",
        "[edge(seed, 0) for number",
        "tests/unit/spark/test_two_writes.py::test_no_tree_is_acked_before_all_children_of_a_whole_attempt",
    ),
)  # fmt: skip


@contextmanager
def copied_checkout() -> Iterator[Path]:
    """A copy of the checkout with its compiled kernels, removed in the end."""
    with tempfile.TemporaryDirectory(prefix="faults-") as directory:
        target = Path(directory) / "checkout"
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
        for name in listed:
            if (ROOT / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target / name)
        yield target


@contextmanager
def broken(checkout: Path, fault: Fault) -> Iterator[None]:
    """Applies a fault to a checkout, and reverts it.

    Raises:
        ValueError: if the text to be replaced does not occur exactly once.
    """
    path = checkout / fault.path
    text = path.read_text()
    if text.count(fault.before) != 1:
        raise ValueError(f"{fault.name}: {fault.path} has {text.count(fault.before)} places to break, not one")
    times = path.stat()
    path.write_text(text.replace(fault.before, fault.after))
    try:
        yield
    finally:
        path.write_text(text)
        # Numba checks its cache by the time of the file.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest in a checkout."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )


def failures(output: str) -> list[str]:
    """The ids of failed tests in pytest's summary."""
    return [line.split(" ")[1] for line in output.splitlines() if line.startswith("FAILED ")]


def check(faults: Sequence[Fault]) -> int:
    """Runs for each fault the test that finds it; returns how many faults were not found."""
    with ExitStack() as stack:
        checkouts = [stack.enter_context(copied_checkout()) for _ in range(_AT_A_TIME)]
        sound = run(
            checkouts[0], "-n", str(_AT_A_TIME), "--dist", "loadgroup", *sorted({fault.test for fault in faults})
        )
        if sound.returncode != 0:
            print(sound.stdout, "the tests fail without any fault", sep="\n", file=sys.stderr)
            return len(faults)
        free: SimpleQueue[Path] = SimpleQueue()
        for checkout in checkouts:
            free.put(checkout)

        def is_found(fault: Fault) -> bool:
            checkout, began = free.get(), time.monotonic()
            try:
                with broken(checkout, fault):
                    done = run(checkout, fault.test)
            finally:
                free.put(checkout)
            found = done.returncode == _FAILED
            print(f"{'found ' if found else 'MISSED'} {time.monotonic() - began:5.1f} s  {fault.name}", flush=True)
            if not found:
                print(f"  {fault.test} ended with exit code {done.returncode}\n{done.stdout[-2000:]}", flush=True)
            return found

        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            found = sum(pool.map(is_found, faults))
    print(f"{found} passed, {len(faults) - found} failed")
    return len(faults) - found


def find(checkout: Path, faults: Iterable[Fault]) -> int:
    """Runs all plain tests for each fault until one fails, and prints it; returns how many faults were not found."""
    missed = 0
    for fault in faults:
        with broken(checkout, fault):
            found: list[str] = []
            for part in _PARTS:
                done = run(checkout, *part)
                if found := failures(done.stdout):
                    break
        missed += not found
        print(f"{fault.name}: {' '.join(found) or 'MISSED'}", flush=True)
    return missed


def main() -> int:
    """Returns 1 if a fault was not found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--find", action="store_true", help="run all plain tests, and print those that fail")
    parser.add_argument("names", nargs="*", help="only faults whose names contain one of these")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if not arguments.names or any(name in fault.name for name in arguments.names)]
    if not arguments.find:
        return 1 if check(faults) else 0
    with copied_checkout() as checkout:
        return 1 if find(checkout, faults) else 0


if __name__ == "__main__":
    sys.exit(main())
