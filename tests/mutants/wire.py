"""Mutants of what programs in other languages rely on: codecs and routing."""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from tests.mutants.patches import Patches, mutant
from tuple_tree import edge_runs, messages, routing
from tuple_tree.edges import STEP
from tuple_tree.ids import NO_IDS, IdColumn
from tuple_tree.messages import AckBatch

_ROUTING: Final = "tests/unit/tuple_tree/test_routing.py"


@mutant("codec", "tests/unit/sdk/test_contract.py::TestInMemory::test_resetting_the_timeout_keeps_a_tree_alive")
def a_column_of_ack_batches_is_lost(patches: Patches) -> None:
    @patches.wrap(messages, "encode_ack_batch")
    def encode(original: Any, batch: AckBatch) -> bytes:
        encoded: bytes = original(replace(batch, reset_roots=NO_IDS))
        return encoded


@mutant("codec", "tests/unit/tuple_tree/test_edge_runs.py::test_what_was_split_is_joined")
def a_run_begins_at_the_edge_that_follows(patches: Patches) -> None:
    @patches.wrap(edge_runs, "seeds_of")
    def seeds_of(original: Any, edges: IdColumn) -> IdColumn:
        seeds: IdColumn = original(edges) + STEP
        return seeds


@mutant(
    "codec", "tests/unit/tuple_tree/test_edge_runs.py::test_batches_have_the_pairs_that_were_written_in_their_order"
)
def vals_between_runs_are_read_behind_them(patches: Patches) -> None:
    @patches.wrap(messages, "joined")
    def joined(original: Any, runs: bytes, vals: IdColumn, size: int, column: str, mixer: Any) -> IdColumn:
        read: IdColumn = original(runs, vals, size, column, mixer)
        is_written = np.isin(read, vals)
        return np.concatenate((read[~is_written], read[is_written]))


@mutant("routing", f"{_ROUTING}::test_the_root_is_read_as_unsigned")
def the_ack_partition_is_that_of_the_signed_root(patches: Patches) -> None:
    @patches.wrap(routing, "acker_partition")
    def acker_partition(original: Any, root: int, partitions: int) -> int:
        partition: int = original(abs(root - 2**64 if root >= 2**63 else root), partitions)
        return partition


@mutant("routing", f"{_ROUTING}::test_pinned_tasks")
def a_fields_grouping_hashes_with_another_seed(patches: Patches) -> None:
    patches.set(routing, "HASH_SEED", routing.HASH_SEED - 1)
