"""Ack batches of a task: their numbers and partitions, and the inputs that their delivery settles."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.unit.sdk.memory import MemorySink, open_pack, opened
from tests.unit.sdk.outbox_rig import OutboxRig
from tuple_tree.entries import MOST_ENTRIES
from tuple_tree.input_batch import InputBatch
from tuple_tree.messages import decode_ack_batch


def test_inputs_are_settled_when_all_batches_of_their_flush_are_delivered() -> None:
    rig = OutboxRig(partitions=2, sink=MemorySink(holds_back=True))
    rig.read(0, 1, 2, 3)
    rig.outbox.flush()
    assert (rig.inputs.committable, rig.acks.in_flight) == (0, 2)
    even, odd = rig.sink.reported
    odd.deliver()
    assert rig.inputs.committable == 0
    even.deliver()
    assert (rig.inputs.committable, rig.acks.in_flight) == (4, 0)


def test_a_record_is_done_when_all_sends_up_to_its_last_ack_are_delivered() -> None:
    rig = OutboxRig(partitions=2, sink=MemorySink(holds_back=True))
    pack = opened(rig.inputs, open_pack(0, 3))
    for root in (1, 2, 3):
        rig.ack(root)
        rig.outbox.flush()
    # A tuple without a tree is the last one: nothing about it is sent.
    rig.outbox.covered.append(pack)
    rig.outbox.flush()
    for sent in (2, 0, 1):
        assert rig.inputs.committable == 0
        rig.sink.reported[sent].deliver()
    assert rig.inputs.committable == 1
    pack = opened(rig.inputs, open_pack(1))
    rig.outbox.covered.append(pack)
    rig.outbox.flush()
    assert rig.inputs.committable == 2


def test_a_batch_never_exceeds_the_size_limit_of_a_record() -> None:
    rig = OutboxRig(partitions=1)
    pack = opened(rig.inputs, open_pack(0))
    batch = InputBatch()
    ids = np.arange(100_000, dtype=np.uint64)
    batch.add(ids, ids)
    rig.outbox.acked.add_all(batch, range(100_000))
    rig.outbox.covered.append(pack)
    rig.outbox.flush()
    assert sorted(root for batch in rig.sink.batches for root in batch.ack_roots.tolist()) == list(range(100_000))
    assert max(len(sent.value or b"") for sent in rig.sink.reported) < 600_000
    assert rig.inputs.committable == 1


def test_a_batch_that_is_not_delivered_settles_nothing_and_stops_the_writer() -> None:
    rig = OutboxRig(partitions=3, sink=MemorySink(holds_back=True))
    rig.read(0, 1, 2)
    rig.outbox.flush()
    for sent, error in zip(rig.sink.reported, (None, "timed out", None), strict=True):
        sent.deliver(error)
    assert (rig.inputs.committable, rig.acks.in_flight) == (0, 0)
    assert re.search(r"split/0 for t.acks\[1\] was not delivered \(timed out\); restart", str(rig.acks.failure))


class FullQueue(MemorySink):
    """Has no room for its first record: delivery reports of others are served until there is."""

    reports: Callable[[], None] | None = None

    def send_reported(self, *record: Any) -> None:
        reports, self.reports = self.reports, None
        if reports is not None:
            reports()
        super().send_reported(*record)


def test_what_reports_add_while_a_batch_waits_for_room_does_not_overtake_it() -> None:
    rig = OutboxRig(partitions=2, sink=(sink := FullQueue()))
    # The reports may be those of dead letters, whose inputs are done then.
    sink.reports = lambda: rig.read(*range(MOST_ENTRIES, 2 * MOST_ENTRIES))
    rig.read(*range(MOST_ENTRIES))
    rig.outbox.flush()
    rig.outbox.flush()
    for partition in range(2):
        batches = [decode_ack_batch(sent.value) for sent in sink.reported if sent.partition == partition]
        # An acker drops a batch with a lower number as a repeat.
        assert [batch.sequence for batch in batches] == list(range(len(batches)))
    assert sum(len(batch.ack_roots) for batch in sink.batches) == rig.inputs.committable == 2 * MOST_ENTRIES
