"""Mutants of chained bolts: when an input is done, which trees need no acker, when a transaction may end."""

from typing import Any, Final

from spout_sdk.bolts.head_task import HeadTask
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.chained_trees import ChainedTrees
from spout_sdk.emitting.outbox import Outbox
from tests.mutants.patches import fixed, mutant, register, replaces
from tuple_tree.input_batch import InputBatch

_TREES: Final = "tests/unit/sdk/test_tangled_trees.py"
_BOLTS: Final = f"{_TREES}::test_a_tree_completes_when_chained_bolts_have_acked_all_of_it"
_SPOUTS: Final = f"{_TREES}::test_a_message_is_complete_when_chained_bolts_have_acked_it"
_EFFECTS: Final = "tests/unit/sdk/chains/test_chain_effects.py"


@mutant("chains", _BOLTS)
@replaces(Outbox, "flush")
def an_input_is_done_before_its_tuples_are_passed_on(original: Any, outbox: Outbox) -> Any:
    for each in outbox.settlements:
        each.count()
        each.settle()
    original(outbox)


@mutant("chains", _SPOUTS)
@replaces(ChainedTrees, "inits")
def a_tree_of_which_tuples_have_left_is_acked_by_the_spout(original: Any, trees: Any, begun: Any) -> Any:
    for batch, places in begun:
        trees._end(batch, places)
    return original(trees, [])


register(
    {
        _BOLTS: {
            "chains: open chained inputs are not counted": fixed(InputBatch, "count_open"),
        },
        _SPOUTS: {
            "chains: the fail of a chained tuple lets its tree complete": fixed(Settlement, "_keep_open"),
        },
        f"{_EFFECTS}::test_a_tuple_without_a_tree_that_waits_in_a_chain_is_not_lost": {
            "chains: a transaction ends although a tuple waits in a chain that is not read again": fixed(
                HeadTask, "can_commit", True
            ),
        },
        f"{_EFFECTS}::test_a_state_whose_chain_is_open_counts_each_input_once": {
            "chains: a transaction ends although a state would be changed again": fixed(Settlement, "can_commit", True),
        },
    }
)
