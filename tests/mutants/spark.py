"""Mutants of components in Spark."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from spark_jobs.delivering import Replays
from spark_jobs.outcomes import Outcomes
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
    waiting: list[tuple[Any, Any]] = []

    @patches.wrap(Packing, "__init__")
    def init(original: Any, packing: Packing, *rest: Any) -> None:
        *others, send = rest
        original(packing, *others, lambda inits: waiting.append((send, inits)))

    @patches.wrap(Packing, "records")
    def records(original: Any, packing: Packing, *rest: Any) -> Iterator[Any]:
        for record in original(packing, *rest):
            yield record
            while waiting:
                send, inits = waiting.pop()
                send(inits)


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
