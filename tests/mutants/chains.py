"""Mutants of chained bolts: when an input is done, which trees need no acker, when a transaction may end."""

from typing import Any, Final

from spout_sdk.chains.chain import Chain
from spout_sdk.chains.noted_outcomes import ChainedOutcomes, NotedOutcomes
from spout_sdk.delivery.spout_transactions import SpoutTransactions
from spout_sdk.emitting.chained_trees import ChainedTrees
from tests.mutants.patches import Patches, mutant
from tuple_tree.input_batch import InputBatch

_TREES: Final = "tests/unit/sdk/test_tangled_trees.py"
_BOLTS: Final = f"{_TREES}::test_a_tree_completes_when_chained_bolts_have_acked_all_of_it"
_SPOUTS: Final = f"{_TREES}::test_a_message_is_complete_when_chained_bolts_have_acked_it"
_EFFECTS: Final = "tests/unit/sdk/chains/test_chain_effects.py"


@mutant("chains", _BOLTS)
def open_chained_inputs_are_not_counted(patches: Patches) -> None:
    @patches.wrap(InputBatch, "count_open")
    def count_open(_original: Any, _batch: InputBatch, _places: Any, _change: int) -> None:
        """Counts nothing."""


@mutant("chains", _SPOUTS)
def a_head_input_is_done_before_its_tuples_are_passed_on(patches: Patches) -> None:
    @patches.wrap(Chain, "settle")
    def settle(_original: Any, chain: Any) -> None:
        for task in chain:
            task.outcomes.settle()
        if chain._head_outcomes is not None:
            chain._head_outcomes.settle()
        chain._outbox.pass_on()


@mutant("chains", _SPOUTS)
def the_fail_of_a_chained_tuple_lets_its_tree_complete(patches: Patches) -> None:
    @patches.wrap(ChainedOutcomes, "fail")
    def fail(_original: Any, outcomes: Any, tuple_: Any, message: Any) -> None:
        NotedOutcomes.fail(outcomes, tuple_, message)


@mutant("chains", _SPOUTS)
def a_tree_of_which_tuples_have_left_is_acked_by_the_spout(patches: Patches) -> None:
    @patches.wrap(ChainedTrees, "inits")
    def inits(original: Any, trees: Any, begun: Any) -> Any:
        for batch, places in begun:
            trees._end(batch, places)
        return original(trees, [])


@mutant("chains", f"{_EFFECTS}::test_an_effect_without_an_anchor_is_not_committed_before_an_input_that_may_have_had_it")
def a_transaction_ends_although_a_message_has_had_half_of_its_effect(patches: Patches) -> None:
    @patches.wrap_property(SpoutTransactions, "_is_whole")
    def _is_whole(_original: Any, _transactions: Any) -> bool:
        return True
