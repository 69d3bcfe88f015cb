"""Mutants of progress: open offsets, and what a commit says to be done."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from spout_sdk.api.tuples import InputPack
from spout_sdk.emitting import transactional_outbox
from spout_sdk.emitting.ack_log import AckLog
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.emitting.transactional_outbox import TransactionalOutbox
from spout_sdk.kafka_spout.outcomes import OutcomeWriter
from spout_sdk.kafka_spout.source_task import SourceTask
from spout_sdk.state.applied import DONE_PREFIX, Applied
from spout_sdk.state.restore import Restorer
from spout_sdk.state.stores import Store
from tests.mutants.patches import fixed, mutant, register, replaces, wrapped
from tuple_tree.offsets import OffsetManager
from tuple_tree.outcome_records import OutcomesOf
from tuple_tree.source_partition import OwnedPartition
from tuple_tree.state_records import ABOUT_KEY

_CONTRACT: Final = "tests/unit/sdk/test_contract.py::TestInMemory"
_SDK: Final = "tests/unit/sdk"
_OPEN: Final = f"{_SDK}/test_open_inputs.py"
_OFFSETS: Final = "tests/unit/tuple_tree/test_offsets.py"
_ROOT_AGAIN: Final = "test_an_answer_of_an_attempt_whose_root_a_later_one_has_again_does_not_count"


@mutant("commits", f"{_SDK}/test_bolt_loop.py::test_at_least_once_commits_up_to_the_first_input_that_is_open")
@replaces(InputOffsets, "delivered")
def a_bolt_commits_one_offset_too_far(original: Any, inputs: InputOffsets) -> Any:
    done = original(inputs)
    return done and replace(done, offset=done.offset + 1)


@mutant("commits", f"{_OPEN}::test_acks_of_tuples_whose_record_is_open_are_committed_when_they_are_delivered")
@replaces(AckLog, "when_delivered")
def acks_that_are_not_sent_are_committed(original: Any, acks: AckLog, call: Callable[[], None]) -> Any:
    def note_and_call() -> None:
        call()
        acks.inputs.tuples_delivered(acks.inputs.note_tuples())

    original(acks, note_and_call)


@mutant("commits", f"{_OPEN}::test_what_another_owner_has_done_is_in_each_commit_until_its_record_is_done")
@replaces(InputOffsets, "open")
def tuples_that_another_owner_has_done_are_left_out_when_their_record_is_read(
    original: Any, inputs: InputOffsets, pack: InputPack
) -> Any:
    original(inputs, pack)
    inputs._done_tuples.pop(pack.offset, None)


@mutant("outcomes", "tests/unit/inspection/message_status/test_shared_outcomes.py")
@replaces(OutcomesOf, "have")
def outcomes_of_other_topologies_count(_original: Any, _own: OutcomesOf, _headers: Any) -> bool:
    return True


@mutant("outcomes", f"{_SDK}/test_answers.py::{_ROOT_AGAIN}")
@replaces(OutcomeWriter, "may_repeat_root")
def an_attempt_with_the_root_of_an_earlier_one_begins_without_a_record(
    _original: Any, _outcomes: OutcomeWriter, _key: int, _root: int
) -> bool:
    return True


@mutant("Kafka spout", f"{_SDK}/test_kafka_spout_crashes.py")
@replaces(SourceTask, "_may_emit")
def messages_are_emitted_before_a_commit_has_them_as_emitted(_original: Any, _task: SourceTask, *_run: Any) -> Any:
    return True


@mutant("Kafka spout", f"{_SDK}/state/test_skipped_messages.py")
@replaces(OwnedPartition, "__init__")
def skipped_messages_are_done(original: Any, each: OwnedPartition, *place: Any, **named: Any) -> Any:
    original(each, *place, **named)
    each._begin = 0


@mutant("Kafka spout", f"{_SDK}/test_kafka_spout_failures.py")
@replaces(OwnedPartition, "__init__")
def failures_under_earlier_owners_are_forgotten(original: Any, each: OwnedPartition, *place: Any, **named: Any) -> Any:
    original(each, *place, **named)
    each.failed.clear()


@mutant("state", f"{_SDK}/state/test_restore.py::test_a_changelog_that_is_lost_or_of_another_state_is_refused")
@replaces(Restorer, "_check_about")
def a_deleted_changelog_is_an_empty_state(
    original: Any, restorer: Restorer, task: int, store: Store, committed: int
) -> Any:
    if store.get(ABOUT_KEY) is not None:
        original(restorer, task, store, committed)


register(
    {
        f"{_CONTRACT}::test_only_settled_inputs_are_committed": {
            "offsets: a hole is passed": wrapped(
                OffsetManager,
                "all_done",
                lambda original, offsets, done: original(
                    offsets, [each for offset in done for each in offsets.open_to(offset)]
                ),
            ),
        },
        _OFFSETS: {
            "offsets: a run has the open offset behind it": wrapped(
                OffsetManager,
                "runs",
                lambda original, offsets: [
                    (begin, min(end + 1, offsets._known_to or end)) for begin, end in original(offsets)
                ],
            ),
            "offsets: what was not read again yet is left out": wrapped(
                OffsetManager,
                "runs",
                lambda original, offsets: [
                    (begin, end) for begin, end in original(offsets) if end <= (offsets.read_to or 0)
                ],
            ),
        },
        f"{_OPEN}::test_what_is_done_is_not_executed_again[False-at_least_once]": {
            "commits: what is done is executed again": wrapped(
                OffsetManager, "start", lambda original, offsets, offset: bool(original(offsets, offset)) or True
            ),
        },
        f"{_OPEN}::test_acks_of_tuples_whose_record_is_open_are_committed_when_they_are_delivered": {
            "commits: what is not delivered is committed": wrapped(
                AckLog, "when_delivered", lambda _original, _acks, call: call()
            ),
        },
        f"{_SDK}/test_async_bolt.py::test_inputs_are_settled_as_they_end_and_are_in_the_committed_set": {
            "commits: tuples of open records are left out of the set": fixed(InputOffsets, "note_tuples", {}),
        },
        f"{_OPEN}::test_what_is_emitted_for_an_open_input_leaves_when_it_is_done": {
            "transactions: a tuple leaves before its input is done": fixed(transactional_outbox, "_has_open", False),
            "transactions: a tuple without an anchor leaves before the input whose call has emitted it": wrapped(
                TransactionalOutbox,
                "unanchored",
                lambda original, outbox, _call, trace_context: original(outbox, (), trace_context),
            ),
        },
        f"{_SDK}/test_steps.py::test_answers_of_a_step_leave_with_the_input_of_its_task": {
            "transactions: a record leaves before its input is done": wrapped(
                TransactionalOutbox, "write", lambda _original, outbox, *record: Outbox.write(outbox, *record)
            ),
        },
        f"{_OPEN}::test_inputs_that_a_tuple_is_emitted_for_are_done_together": {
            "transactions: a tuple leaves with one of its inputs": fixed(TransactionalOutbox, "link"),
        },
        f"{_SDK}/test_tangled_trees.py::test_a_tree_completes_when_all_of_it_is_sent_and_acked": {
            "transactions: an input is done before a tuple leaves that is anchored to another one as well": fixed(
                TransactionalOutbox, "_count_links"
            ),
        },
        f"{_SDK}/state/test_histories.py::test_each_tuple_changes_the_state_once": {
            "state: what is known to be done is not part of it": wrapped(
                Applied,
                "changes",
                lambda original, applied: {
                    key: value for key, value in original(applied).items() if not key.startswith(DONE_PREFIX)
                },
            ),
            "state: a tuple of a done message changes it": wrapped(
                Applied,
                "is_applied",
                lambda original, applied, position, path: (
                    bool(original(applied, position, path)) and not applied._done.has(position)
                ),
            ),
        },
        "tests/kafka/test_restore.py": {
            "state: a restore ends where a transaction is open": wrapped(
                Restorer, "_reader", lambda original, restorer, _isolation="": original(restorer, "read_committed")
            ),
        },
    }
)
