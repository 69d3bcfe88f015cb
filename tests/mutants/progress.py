"""Mutants of progress: open offsets, and what a commit says to be done."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from kafka_clients.log_reader import LogReader
from spout_sdk.api.tuples import InputPack
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.emitting.ack_log import AckLog
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.kafka_spout.partitions import OwnedPartition
from spout_sdk.state.applied import DONE_PREFIX, Applied
from spout_sdk.state.restore import Restorer
from spout_sdk.state.stores import Store
from tests.mutants.patches import Patches, mutant
from tuple_tree.done_sets import DoneSet
from tuple_tree.input_batch import InputBatch
from tuple_tree.offsets import OffsetManager, Runs
from tuple_tree.state_records import ABOUT_KEY

_CONTRACT: Final = "tests/unit/sdk/test_contract.py::TestInMemory"
_SDK: Final = "tests/unit/sdk"
_OPEN: Final = f"{_SDK}/test_open_inputs.py"
_SETS: Final = f"{_SDK}/test_committed_sets.py"
_OFFSETS: Final = "tests/unit/tuple_tree/test_offsets.py"


@mutant("offsets", f"{_CONTRACT}::test_only_settled_inputs_are_committed")
def a_hole_is_passed(patches: Patches) -> None:
    @patches.wrap(OffsetManager, "all_done")
    def all_done(original: Any, offsets: OffsetManager, done: list[int]) -> None:
        original(offsets, [each for offset in done for each in offsets.open_to(offset)])


@mutant("offsets", _OFFSETS)
def a_run_has_the_open_offset_behind_it(patches: Patches) -> None:
    @patches.wrap_property(OffsetManager, "runs")
    def runs(original: Any, offsets: OffsetManager) -> Runs:
        return [(begin, min(end + 1, offsets._known_to or end)) for begin, end in original(offsets)]


@mutant("offsets", _OFFSETS)
def what_was_not_read_again_yet_is_left_out(patches: Patches) -> None:
    @patches.wrap_property(OffsetManager, "runs")
    def runs(original: Any, offsets: OffsetManager) -> Runs:
        return [(begin, end) for begin, end in original(offsets) if end <= (offsets.read_to or 0)]


@mutant("commits", f"{_OPEN}::test_what_is_done_is_not_executed_again[False]")
def what_is_done_is_executed_again(patches: Patches) -> None:
    @patches.wrap(OffsetManager, "start")
    def start(original: Any, offsets: OffsetManager, offset: int) -> bool:
        return bool(original(offsets, offset)) or True


@mutant("commits", f"{_SDK}/test_bolt_loop.py::test_at_least_once_commits_up_to_the_first_input_that_is_open")
def a_bolt_commits_one_offset_too_far(patches: Patches) -> None:
    @patches.wrap(InputOffsets, "delivered")
    def delivered(original: Any, inputs: InputOffsets) -> DoneSet | None:
        done: DoneSet | None = original(inputs)
        return done and replace(done, offset=done.offset + 1)


@mutant("commits", f"{_OPEN}::test_acks_of_tuples_whose_record_is_open_are_committed_when_they_are_delivered")
def what_is_not_delivered_is_committed(patches: Patches) -> None:
    @patches.wrap(AckLog, "when_delivered")
    def when_delivered(_original: Any, _acks: AckLog, call: Callable[[], None]) -> None:
        call()


@mutant("commits", f"{_OPEN}::test_acks_of_tuples_whose_record_is_open_are_committed_when_they_are_delivered")
def acks_that_are_not_sent_are_committed(patches: Patches) -> None:
    @patches.wrap(AckLog, "when_delivered")
    def when_delivered(original: Any, acks: AckLog, call: Callable[[], None]) -> None:
        def note_and_call() -> None:
            call()
            acks.inputs.tuples_delivered(acks.inputs.note_tuples())

        original(acks, note_and_call)


@mutant("commits", f"{_SDK}/test_async_bolt.py::test_inputs_are_settled_as_they_end_and_are_in_the_committed_set")
def tuples_of_open_records_are_left_out_of_the_set(patches: Patches) -> None:
    @patches.wrap(InputOffsets, "note_tuples")
    def note_tuples(_original: Any, _inputs: InputOffsets) -> dict[int, Any]:
        return {}


@mutant("commits", f"{_SETS}::test_what_another_owner_has_done_is_in_each_commit_until_its_record_is_done")
def tuples_that_another_owner_has_done_are_left_out_when_their_record_is_read(patches: Patches) -> None:
    @patches.wrap(InputOffsets, "open")
    def open_record(original: Any, inputs: InputOffsets, pack: InputPack) -> None:
        original(inputs, pack)
        inputs._done_tuples.pop(pack.offset, None)


@mutant("transactions", f"{_OPEN}::test_a_transaction_waits_for_an_open_input_that_has_emitted")
def a_transaction_leaves_an_input_open_that_has_emitted(patches: Patches) -> None:
    @patches.wrap(InputBatch, "has_children")
    def has_children(_original: Any, _batch: InputBatch, _places: Any) -> bool:
        return False


@mutant("transactions", f"{_OPEN}::test_a_transaction_waits_for_an_open_input_that_has_emitted")
def what_is_sent_without_an_anchor_is_no_effect(patches: Patches) -> None:
    @patches.wrap_property(Outbox, "unanchored")
    def unanchored(_original: Any, _outbox: Outbox) -> int:
        return 0


@mutant("transactions", f"{_SETS}::test_what_is_emitted_for_several_inputs_is_an_effect_of_each")
def what_is_emitted_for_several_inputs_is_an_effect_of_one(patches: Patches) -> None:
    @patches.wrap(Outcomes, "emitted_for")
    def emitted_for(_original: Any, _outcomes: Outcomes, *_: Any) -> None:
        """Notes nothing."""


@mutant("Kafka spout", f"{_SDK}/test_kafka_spout_failures.py")
def failures_under_earlier_owners_are_forgotten(patches: Patches) -> None:
    @patches.wrap(OwnedPartition, "__init__")
    def init(original: Any, each: OwnedPartition, *place: Any, **named: Any) -> None:
        original(each, *place, **named)
        each._failures.clear()


@mutant("state", f"{_SDK}/state/test_histories.py::test_each_tuple_changes_the_state_once")
def what_is_known_to_be_done_is_not_part_of_it(patches: Patches) -> None:
    @patches.wrap(Applied, "changes")
    def changes(original: Any, applied: Applied) -> Mapping[bytes, bytes | None]:
        return {key: value for key, value in original(applied).items() if not key.startswith(DONE_PREFIX)}


@mutant("state", f"{_SDK}/state/test_histories.py::test_each_tuple_changes_the_state_once")
def a_tuple_of_a_done_message_changes_it(patches: Patches) -> None:
    @patches.wrap(Applied, "is_applied")
    def is_applied(original: Any, applied: Applied, position: int, path: int) -> bool:
        return bool(original(applied, position, path)) and not applied._done.has(position)


@mutant("state", "tests/kafka/test_restore.py")
def a_restore_ends_where_a_transaction_is_open(patches: Patches) -> None:
    @patches.wrap(Restorer, "_reader")
    def _reader(original: Any, restorer: Restorer, _isolation: str = "") -> LogReader:
        reader: LogReader = original(restorer, "read_committed")
        return reader


@mutant("state", f"{_SDK}/state/test_restore.py::test_a_changelog_that_is_lost_or_of_another_state_is_refused")
def a_deleted_changelog_is_an_empty_state(patches: Patches) -> None:
    @patches.wrap(Restorer, "_check_about")
    def _check_about(original: Any, restorer: Restorer, task: int, store: Store, committed: int) -> None:
        if store.get(ABOUT_KEY) is not None:
            original(restorer, task, store, committed)
