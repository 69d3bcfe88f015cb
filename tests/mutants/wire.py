"""Mutants of what programs in other languages rely on: codecs and routing."""

from dataclasses import replace
from typing import Any, Final

from tests.mutants.patches import Patches, mutant
from tuple_tree import messages, routing
from tuple_tree.ids import NO_IDS
from tuple_tree.messages import AckBatch

_ROUTING: Final = "tests/unit/tuple_tree/test_routing.py"


@mutant("codec", "tests/unit/sdk/test_contract.py::TestInMemory::test_resetting_the_timeout_keeps_a_tree_alive")
def a_column_of_ack_batches_is_lost(patches: Patches) -> None:
    @patches.wrap(messages, "encode_ack_batch")
    def encode(original: Any, batch: AckBatch) -> bytes:
        encoded: bytes = original(replace(batch, reset_roots=NO_IDS))
        return encoded


@mutant("routing", f"{_ROUTING}::test_the_root_is_read_as_unsigned")
def the_ack_partition_is_that_of_the_signed_root(patches: Patches) -> None:
    @patches.wrap(routing, "acker_partition")
    def acker_partition(original: Any, root: int, partitions: int) -> int:
        partition: int = original(abs(root - 2**64 if root >= 2**63 else root), partitions)
        return partition


@mutant("routing", f"{_ROUTING}::test_pinned_tasks")
def a_fields_grouping_hashes_with_another_seed(patches: Patches) -> None:
    patches.set(routing, "HASH_SEED", routing.HASH_SEED - 1)
