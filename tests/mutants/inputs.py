"""Mutants of the inputs of a task: outcomes, offsets, guarantees, windows, replays."""

from collections.abc import Sequence
from typing import Any, Final

from spout_sdk.api.tuples import NO_TREES, InputPack, Tuple
from spout_sdk.bolts.retries import Retries
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.bolts.written_records import RecordWrites, Written
from spout_sdk.delivery.delivery_guarantees import AtMostOnce
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.operators.async_effects import AsyncEmitter
from spout_sdk.operators.async_operator import AsyncOperator
from spout_sdk.runtime.periodic_resets import PeriodicResets
from spout_sdk.state.collectors import StateCollector, send_held
from spout_sdk.windows.rows import CollectedRows
from tests.mutants.patches import Patches, fixed, mutant, register, replaces, wrapped
from tuple_tree.positions import OFFSET_SHIFT
from tuple_tree.source_partition import OwnedPartition

_CONTRACT: Final = "tests/unit/sdk/test_contract.py::TestInMemory"
_SDK: Final = "tests/unit/sdk"


@mutant("bolt", f"{_SDK}/test_bolt_task.py::test_acking_or_failing_twice_raises_and_names_the_tuple")
@replaces(Settlement, "ack")
def a_settled_tuple_is_acked_again(original: Any, settlement: Settlement, tuple_: Tuple) -> Any:
    tuple_.pack.settled[tuple_.index] = 0
    original(settlement, tuple_)


@mutant("bolt", f"{_SDK}/test_pending_writes.py::test_a_tuple_is_acked_when_all_of_its_records_are_delivered")
@replaces(RecordWrites, "_hold")
def an_input_is_done_before_its_records_are_delivered(_original: Any, _writes: RecordWrites, *_: Any) -> None:
    pass


@mutant("bolt", f"{_SDK}/test_pending_writes.py::test_a_record_that_is_delivered_before_the_next_is_sent_does_not_ack")
@replaces(RecordWrites, "write")
def a_tuple_is_acked_in_the_middle_of_a_call(original: Any, writes: RecordWrites, *record: Any) -> None:
    original(writes, *record)
    writes.handle()


@mutant("bolt", f"{_SDK}/test_kafka_bolt.py::test_each_tuple_of_a_call_is_acked_or_fails_with_its_own_record")
@replaces(Written, "report")
def the_report_of_a_record_is_taken_for_the_next_one(original: Any, written: Written, at: int, *of_record: Any) -> None:
    original(written, (at + 1) % len(written.indices), *of_record)


@mutant("async bolt", f"{_SDK}/test_async_effects.py::test_nothing_is_sent_for_an_input_that_stays_open")
@replaces(AsyncEmitter, "check")
def tuples_are_sent_before_answers_are_checked(
    original: Any, emitter: AsyncEmitter, emits: Sequence[Any], answers: Sequence[Any]
) -> Any:
    for values, stream in emits:
        emitter._emit(values, stream, NO_TREES, 0)
    return original(emitter, emits, answers)


@mutant("state", f"{_SDK}/test_state_writes.py::test_a_write_of_an_emit_that_raises_is_not_in_the_topic")
@replaces(StateCollector, "write")
def a_record_is_written_before_the_value_is_set(
    original: Any, collector: StateCollector, *record: Any, **named: Any
) -> Any:
    original(collector, *record, **named)
    send_held(collector.held, collector._task, collector._settlement)


@mutant("async bolt", f"{_SDK}/test_async_bolt.py::test_inputs_are_settled_as_they_end_and_are_in_the_committed_set")
@replaces(AsyncOperator, "process")
def inputs_are_acked_as_their_coroutines_begin(original: Any, adapter: AsyncOperator, tuples: Sequence[Tuple]) -> Any:
    original(adapter, tuples)
    for tuple_ in tuples:
        if not (tuple_.is_tick or tuple_.settled):
            adapter._settlement.ack(tuple_)


@mutant("offsets", f"{_CONTRACT}::test_a_record_is_committed_when_all_of_its_tuples_are_settled")
@replaces(InputOffsets, "open")
def the_first_tuple_of_a_record_settles_it(original: Any, inputs: InputOffsets, pack: InputPack) -> Any:
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


@mutant("windows", f"{_SDK}/test_windowed_bolt.py::test_sliding_windows_have_new_and_expired_tuples")
@replaces(CollectedRows, "drop")
def rows_are_dropped_that_the_next_window_needs(original: Any, rows: CollectedRows, key: bytes, *_: Any) -> None:
    original(rows, key, None, None)


@mutant(
    "Kafka spout",
    f"{_SDK}/test_kafka_spout_restarts.py::test_after_a_clean_restart_only_the_open_message_is_emitted_again",
)
@replaces(OwnedPartition, "start")
def what_is_done_behind_an_open_message_is_emitted_again(original: Any, partition: OwnedPartition, offset: int) -> Any:
    original(partition, offset)
    return True


register(
    {
        f"{_CONTRACT}::test_a_dead_letter_fails_its_trees_and_the_bolt_continues": {
            "bolt: a tuple that cannot be read is acked with its dead letter": wrapped(
                Settlement,
                "reject",
                lambda _original, settlement, tuple_, error: settlement.send_dead_letter(tuple_, error),
            ),
        },
        f"{_SDK}/test_retries.py::test_a_record_that_was_written_before_the_exception_does_not_ack": {
            "retries: a record of an execution that raised acks the tuple": fixed(Settlement, "withdraw"),
        },
        f"{_SDK}/test_retries.py::test_a_tuple_is_kept_alive_beyond_the_message_timeout": {
            "retries: trees of tuples that wait are not kept alive": fixed(Retries, "look"),
        },
        f"{_SDK}/test_pauses.py::test_the_rest_of_a_call_is_the_first_after_the_pause": {
            "retries: the rest of a call is lost when its task pauses": fixed(Retries, "defer"),
        },
        f"{_SDK}/test_pauses.py::test_messages_of_a_topic_are_not_replayed": {
            "retries: what waits for a task that pauses times out": fixed(PeriodicResets, "keep"),
        },
        f"{_SDK}/test_async_long_work.py::test_a_coroutine_is_cancelled_at_its_time_limit_and_its_input_fails": {
            "async bolt: an input that exceeds its time limit is acked": fixed(AsyncOperator, "_over_limit"),
        },
        f"{_SDK}/test_async_loop.py::test_a_coroutine_of_twenty_minutes_stops_nothing_else": {
            "async bolt: trees of running inputs are not kept alive": fixed(Settlement, "keep_open_alive"),
        },
        f"{_SDK}/test_simulated_kills.py::test_with_exactly_once_nothing_is_executed_twice": {
            "transactions: the offsets of the inputs are left out": wrapped(
                TransactionalSink, "commit", lambda original, sink, _offsets, group: original(sink, [], group)
            ),
        },
        f"{_SDK}/test_windowed_bolt.py::test_each_tuple_is_in_its_windows_once_whatever_is_killed": {
            "windows: the collected rows of the task before are not read": fixed(CollectedRows, "begin"),
        },
        f"{_SDK}/test_kafka_spout_crashes.py": {
            "Kafka spout: a replay uses its root again": wrapped(
                OwnedPartition,
                "attempt_id",
                lambda _original, partition, offset: partition.first_attempt_id | offset << OFFSET_SHIFT,
            ),
        },
    }
)
