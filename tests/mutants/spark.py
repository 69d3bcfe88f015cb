"""Mutants of components in Spark."""

from typing import Any, Final

import numpy as np

from spark_jobs.outcomes import Outcomes
from spark_jobs.packing import Packing
from tests.mutants.patches import Patches, mutant, register, replaces, wrapped
from tuple_tree import edges

_WRITES: Final = "tests/unit/spark/test_spout_writes.py"
_TWO_WRITES: Final = "tests/unit/spark/test_two_writes.py"


@mutant("Spark spout", "tests/unit/spark/test_outcomes.py::test_failures_become_due_under_the_next_attempt")
@replaces(Outcomes, "take_due")
def a_replay_uses_its_root_again(original: Any, outcomes: Outcomes, *room: Any, **named: Any) -> Any:
    replays = original(outcomes, *room, **named)
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


register(
    {
        f"{_WRITES}::test_a_second_init_of_a_tree_that_failed_completes_nothing": {
            "Spark spout: an attempt has the edges of the one before": wrapped(
                edges, "new_seed", lambda original, *_entropy: 7
            ),
        },
        f"{_TWO_WRITES}::test_rows_arrive_and_trees_complete": {
            "Spark: the edge of an input is left out of its ack": wrapped(
                edges, "edges_of", lambda original, seeds, numbers: np.zeros_like(original(seeds, numbers))
            ),
        },
        f"{_TWO_WRITES}::test_no_tree_is_acked_before_all_children_of_a_whole_attempt": {
            "Spark: children share an edge": wrapped(
                edges,
                "edge_column",
                lambda original, seed, first, size: np.full(size, edges.edge(seed, first), np.uint64),
            ),
        },
    }
)
