"""Mutants of what programs in other languages rely on: codecs and routing."""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from tests.mutants.patches import Patches, mutant, register, replaces, wrapped
from tuple_tree import edge_runs, messages, routing
from tuple_tree.edges import STEP
from tuple_tree.ids import NO_IDS, IdColumn

_ROUTING: Final = "tests/unit/tuple_tree/test_routing.py"


@mutant("codec", "tests/unit/tuple_tree/test_edge_runs.py::test_what_was_split_is_joined")
@replaces(edge_runs, "seeds_of")
def a_run_begins_at_the_edge_that_follows(original: Any, edges: IdColumn) -> Any:
    return original(edges) + STEP


@mutant(
    "codec", "tests/unit/tuple_tree/test_edge_runs.py::test_batches_have_the_pairs_that_were_written_in_their_order"
)
@replaces(messages, "joined")
def vals_between_runs_are_read_behind_them(
    original: Any, runs: bytes, vals: IdColumn, size: int, column: str, mixer: Any
) -> Any:
    read: IdColumn = original(runs, vals, size, column, mixer)
    is_written = np.isin(read, vals)
    return np.concatenate((read[~is_written], read[is_written]))


@mutant("routing", f"{_ROUTING}::test_pinned_tasks")
def a_fields_grouping_hashes_with_another_seed(patches: Patches) -> None:
    patches.set(routing, "HASH_SEED", routing.HASH_SEED - 1)


register(
    {
        "tests/unit/sdk/test_contract.py::TestInMemory::test_resetting_the_timeout_keeps_a_tree_alive": {
            "codec: a column of ack batches is lost": wrapped(
                messages, "encode_ack_batch", lambda original, batch: original(replace(batch, reset_roots=NO_IDS))
            ),
        },
        f"{_ROUTING}::test_the_root_is_read_as_unsigned": {
            "routing: the ack partition is that of the signed root": wrapped(
                routing,
                "acker_partition",
                lambda original, root, partitions: original(abs(root - 2**64 if root >= 2**63 else root), partitions),
            ),
        },
    }
)
