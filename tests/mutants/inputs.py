"""Mutants of the inputs of a task: outcomes, offsets, guarantees, windows, replays."""

import json
from collections.abc import Sequence
from typing import Any, Final

from spout_sdk.api.tuples import InputPack, Tuple
from spout_sdk.bolts.async_adapter import AsyncAdapter
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.bolts.pending_writes import PendingWrites
from spout_sdk.bolts.retries import Retries
from spout_sdk.delivery.delivery_guarantees import AtMostOnce
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.kafka_spout.partitions import OwnedPartition
from spout_sdk.runtime.periodic_resets import PeriodicResets
from spout_sdk.windows.fold import WindowFold
from tests.mutants.patches import Patches, mutant

_CONTRACT: Final = "tests/unit/sdk/test_contract.py::TestInMemory"
_SDK: Final = "tests/unit/sdk"


@mutant("bolt", f"{_SDK}/test_bolt_task.py::test_acking_or_failing_twice_raises_and_names_the_tuple")
def a_settled_tuple_is_acked_again(patches: Patches) -> None:
    @patches.wrap(Outcomes, "ack")
    def ack(original: Any, outcomes: Outcomes, tuple_: Tuple) -> None:
        tuple_.pack.settled[tuple_.index] = 0
        original(outcomes, tuple_)


@mutant("bolt", f"{_CONTRACT}::test_a_dead_letter_fails_its_trees_and_the_bolt_continues")
def a_tuple_that_cannot_be_read_is_acked_with_its_dead_letter(patches: Patches) -> None:
    @patches.wrap(Outcomes, "reject")
    def reject(original: Any, outcomes: Outcomes, tuple_: Tuple, error: Any) -> None:
        outcomes.send_dead_letter(tuple_, error)


@mutant("bolt", f"{_SDK}/test_pending_writes.py::test_a_tree_fails_if_its_second_record_is_not_delivered")
def a_tuple_is_acked_with_the_first_of_its_records(patches: Patches) -> None:
    @patches.wrap(PendingWrites, "expect")
    def expect(original: Any, writes: PendingWrites, tuple_: Tuple) -> None:
        if tuple_ not in writes.undelivered:
            original(writes, tuple_)


@mutant("bolt", f"{_SDK}/test_pending_writes.py::test_a_record_that_is_delivered_before_the_next_is_sent_does_not_ack")
def a_delivery_report_is_handled_in_the_middle_of_a_call(patches: Patches) -> None:
    @patches.wrap(PendingWrites, "report")
    def report(original: Any, writes: PendingWrites, *delivered: Any, **named: Any) -> None:
        original(writes, *delivered, **named)
        writes.handle()


@mutant("retries", f"{_SDK}/test_retries.py::test_a_record_that_was_written_before_the_exception_does_not_ack")
def a_record_of_an_execution_that_raised_acks_the_tuple(patches: Patches) -> None:
    @patches.wrap(Outcomes, "begun_anew")
    def begun_anew(_original: Any, _outcomes: Outcomes, tuple_: Tuple) -> Tuple:
        return tuple_


@mutant("retries", f"{_SDK}/test_retries.py::test_a_tuple_is_kept_alive_beyond_the_message_timeout")
def trees_of_tuples_that_wait_are_not_kept_alive(patches: Patches) -> None:
    @patches.wrap(Retries, "tick")
    def tick(_original: Any, _retries: Retries, _now: float) -> None:
        """Resets nothing."""


@mutant("retries", f"{_SDK}/test_pauses.py::test_the_rest_of_a_call_is_the_first_after_the_pause")
def the_rest_of_a_call_is_lost_when_its_task_pauses(patches: Patches) -> None:
    @patches.wrap(Retries, "defer")
    def defer(_original: Any, _retries: Retries, _tuples: Sequence[Tuple]) -> None:
        """Keeps nothing."""


@mutant("retries", f"{_SDK}/test_pauses.py::test_messages_of_a_topic_are_not_replayed")
def what_waits_for_a_task_that_pauses_times_out(patches: Patches) -> None:
    @patches.wrap(PeriodicResets, "keep")
    def keep(_original: Any, _kept: PeriodicResets, _tasks: Any, _now: float) -> None:
        """Resets nothing."""


@mutant("async bolt", f"{_SDK}/test_async_bolt.py::test_inputs_are_settled_as_they_end_and_are_in_the_committed_set")
def inputs_are_acked_as_their_coroutines_begin(patches: Patches) -> None:
    @patches.wrap(AsyncAdapter, "execute")
    def execute(original: Any, adapter: AsyncAdapter, tuples: Sequence[Tuple]) -> None:
        original(adapter, tuples)
        for tuple_ in tuples:
            if not (tuple_.is_tick or tuple_.settled):
                adapter._outcomes.ack(tuple_)


@mutant(
    "async bolt", f"{_SDK}/test_async_long_work.py::test_a_coroutine_is_cancelled_at_its_time_limit_and_its_input_fails"
)
def an_input_that_exceeds_its_time_limit_is_acked(patches: Patches) -> None:
    @patches.wrap(AsyncAdapter, "_over_limit")
    def over_limit(_original: Any, _adapter: AsyncAdapter) -> None:
        """No error."""


@mutant("async bolt", f"{_SDK}/test_async_loop.py::test_a_coroutine_of_twenty_minutes_stops_nothing_else")
def trees_of_running_inputs_are_not_kept_alive(patches: Patches) -> None:
    @patches.wrap(Outcomes, "keep_open_alive")
    def keep_open_alive(_original: Any, _outcomes: Outcomes) -> None:
        """Resets nothing."""


@mutant("offsets", f"{_CONTRACT}::test_a_record_is_committed_when_all_of_its_tuples_are_settled")
def the_first_tuple_of_a_record_settles_it(patches: Patches) -> None:
    @patches.wrap(InputOffsets, "open")
    def open_record(original: Any, inputs: InputOffsets, pack: InputPack) -> None:
        original(inputs, pack)
        pack.left = 1


@mutant("commits", f"{_SDK}/test_at_most_once.py::test_at_most_once_commits_before_it_executes")
def at_most_once_commits_after_it_has_executed(patches: Patches) -> None:
    executed: dict[int, Sequence[Any]] = {}

    @patches.wrap(AtMostOnce, "admit")
    def admit(original: Any, guarantee: AtMostOnce, records: Sequence[Any]) -> None:
        before, executed[id(guarantee)] = executed.get(id(guarantee)), records
        if before is not None:
            original(guarantee, before)


@mutant("transactions", f"{_SDK}/test_simulated_kills.py::test_with_exactly_once_nothing_is_executed_twice")
def the_offsets_of_the_inputs_are_left_out(patches: Patches) -> None:
    @patches.wrap(TransactionalSink, "commit")
    def commit(original: Any, sink: TransactionalSink, _offsets: Any, group: Any) -> None:
        original(sink, [], group)


@mutant("windows", f"{_SDK}/test_window_fold.py::test_each_window_closes_once_after_any_reread")
def tuples_that_were_settled_before_are_held_again(patches: Patches) -> None:
    @patches.wrap(WindowFold, "resume")
    def resume(original: Any, fold: WindowFold, progress: str, offset: int, now: int) -> None:
        state = json.loads(progress) if progress else {}
        if state.get("gone") is not None:
            progress = json.dumps(state | {"gone": None})
        original(fold, progress, offset, now)


@mutant("windows", f"{_SDK}/test_windows_exactly_once.py::test_each_window_closes_once_and_every_tree_completes")
def a_task_does_not_continue_at_the_position_of_its_predecessor(patches: Patches) -> None:
    @patches.wrap(BoltTask, "resume")
    def resume(original: Any, task: BoltTask, offset: int, _metadata: str | None) -> None:
        original(task, offset, None)


@mutant("windows", f"{_SDK}/test_windows_exactly_once.py::test_each_window_closes_once_and_every_tree_completes")
def outputs_for_a_tuple_that_stays_are_not_acked_ahead(patches: Patches) -> None:
    @patches.wrap(Outcomes, "part")
    def part(original: Any, outcomes: Outcomes, tuples: Sequence[Tuple]) -> None:
        """Acks nothing."""


@mutant("Kafka spout", f"{_SDK}/test_kafka_spout_crashes.py")
def a_replay_uses_its_root_again(patches: Patches) -> None:
    @patches.wrap(OwnedPartition, "word")
    def word(original: Any, partition: OwnedPartition, offset: int, _failures: int) -> int:
        root: int = original(partition, offset, 0)
        return root


@mutant(
    "Kafka spout",
    f"{_SDK}/test_kafka_spout_restarts.py::test_after_a_clean_restart_only_the_open_message_is_emitted_again",
)
def what_is_done_behind_an_open_message_is_emitted_again(patches: Patches) -> None:
    @patches.wrap(OwnedPartition, "start")
    def start(original: Any, partition: OwnedPartition, offset: int) -> bool:
        original(partition, offset)
        return True
