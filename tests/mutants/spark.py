"""Mutants of components in Spark."""

from typing import Any, Final

import numpy as np

from spark_jobs.outcomes import Outcomes, Replays
from spark_jobs.packing import Packing
from tests.mutants.patches import Patches, mutant
from tuple_tree import edges
from tuple_tree.ids import IdColumn

_WRITES: Final = "tests/unit/spark/test_spout_writes.py"
_TWO_WRITES: Final = "tests/unit/spark/test_two_writes.py"


@mutant("Spark spout", "tests/unit/spark/test_outcomes.py::test_failures_become_due_under_the_next_attempt")
def a_replay_uses_its_root_again(patches: Patches) -> None:
    @patches.wrap(Outcomes, "take_due")
    def take_due(original: Any, outcomes: Outcomes, *room: Any, **named: Any) -> Replays | None:
        replays: Replays | None = original(outcomes, *room, **named)
        return None if replays is None else replays._replace(attempts=replays.attempts - 1)


@mutant("Spark spout", f"{_WRITES}::test_inits_come_before_their_tuples")
def inits_follow_their_tuples(patches: Patches) -> None:
    waiting: list[Any] = []

    @patches.wrap(Packing, "_deliver")
    def deliver(original: Any, packing: Packing, records: Any) -> None:
        waiting.append(records)
        if len(waiting) == 2:  # inits, then tuples
            for each in reversed(waiting):
                original(packing, each)
            waiting.clear()


@mutant("Spark spout", f"{_WRITES}::test_no_tuple_leaves_if_its_init_is_not_delivered")
def inits_are_sent_together_with_their_tuples(patches: Patches) -> None:
    waiting: list[Any] = []

    @patches.wrap(Packing, "_deliver")
    def deliver(original: Any, packing: Packing, records: Any) -> None:
        waiting.append(records)
        if len(waiting) == 2:
            original(packing, [record for each in waiting for record in each])
            waiting.clear()


@mutant("Spark spout", f"{_WRITES}::test_a_second_init_of_a_tree_that_failed_completes_nothing")
def an_attempt_has_the_edges_of_the_one_before(patches: Patches) -> None:
    @patches.wrap(edges, "new_seed")
    def new_seed(original: Any, *_entropy: Any) -> int:
        return 7


@mutant("Spark", f"{_TWO_WRITES}::test_rows_arrive_and_trees_complete")
def the_edge_of_an_input_is_left_out_of_its_ack(patches: Patches) -> None:
    @patches.wrap(edges, "edges_of")
    def edges_of(original: Any, seeds: IdColumn, numbers: IdColumn) -> IdColumn:
        return np.zeros_like(original(seeds, numbers))


@mutant("Spark", f"{_TWO_WRITES}::test_no_tree_is_acked_before_all_children_of_a_whole_attempt")
def children_share_an_edge(patches: Patches) -> None:
    @patches.wrap(edges, "edge_column")
    def edge_column(original: Any, seed: int, first: int, size: int) -> IdColumn:
        return np.full(size, edges.edge(seed, first), np.uint64)
