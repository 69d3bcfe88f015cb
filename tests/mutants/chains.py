"""Mutants of chained bolts: when an input is done, which trees need no acker, when a transaction may end."""

from typing import Any, Final

from spout_sdk.chains.chain import Chain
from spout_sdk.chains.noted_outcomes import ChainedOutcomes, NotedOutcomes
from spout_sdk.delivery.exactly_once import ExactlyOnce
from spout_sdk.emitting.chained_trees import ChainedTrees
from tests.mutants.patches import fixed, mutant, register, replaces, wrapped
from tuple_tree.input_batch import InputBatch

_TREES: Final = "tests/unit/sdk/test_tangled_trees.py"
_BOLTS: Final = f"{_TREES}::test_a_tree_completes_when_chained_bolts_have_acked_all_of_it"
_SPOUTS: Final = f"{_TREES}::test_a_message_is_complete_when_chained_bolts_have_acked_it"
_EFFECTS: Final = "tests/unit/sdk/chains/test_chain_effects.py"


@mutant("chains", _SPOUTS)
@replaces(Chain, "settle")
def a_head_input_is_done_before_its_tuples_are_passed_on(_original: Any, chain: Any) -> Any:
    for task in chain:
        task.outcomes.settle()
    if chain._head_outcomes is not None:
        chain._head_outcomes.settle()
    chain._outbox.pass_on()


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
            "chains: the fail of a chained tuple lets its tree complete": wrapped(
                ChainedOutcomes,
                "fail",
                lambda _original, outcomes, tuple_, message: NotedOutcomes.fail(outcomes, tuple_, message),
            ),
        },
        f"{_EFFECTS}::test_an_effect_without_an_anchor_is_not_committed_before_an_input_that_may_have_had_it": {
            "chains: a transaction ends although a message has had half of its effect": fixed(
                ExactlyOnce, "_is_whole", True
            ),
        },
    }
)
