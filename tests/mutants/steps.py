"""Mutants of steps: what becomes of the rows of a call."""

from typing import Any, Final

from spout_sdk.steps.call import Call
from spout_sdk.steps.emitter import StepEmitter
from tests.mutants.patches import mutant, replaces

_FUNCTIONS: Final = "tests/unit/sdk/test_functions.py"
_TANGLED: Final = "tests/unit/sdk/test_tangled_trees.py"


@mutant("steps", f"{_FUNCTIONS}::test_a_row_is_retried_in_its_task_by_the_policy")
@replaces(Call, "_has_raised")
def a_row_is_acked_whose_function_raised(original: Any, call: Call, error: BaseException) -> bool:
    is_paused: bool = original(call, error)
    call._failed.clear()
    return is_paused


@mutant("steps", f"{_FUNCTIONS}::test_a_row_that_raises_fails_alone_and_no_other_call_is_repeated")
@replaces(StepEmitter, "emit_all")
def results_are_anchored_to_the_row_before(
    original: Any, emitter: StepEmitter, rows: Any, batch: Any, places: list[int], anchors: Any
) -> bool:
    is_emitted: bool = original(emitter, rows, batch, [places[at - 1] for at in range(len(places))], anchors)
    return is_emitted


@mutant("steps", f"{_TANGLED}::test_a_tree_completes_when_all_of_it_is_sent_and_acked[Stepped]")
@replaces(Call, "_emit")
def results_of_the_last_row_are_lost(original: Any, call: Call, rows: Any, positions: Any) -> None:
    original(call, rows[:-1], positions[:-1])
