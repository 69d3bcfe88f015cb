"""The ack buffer: when batches are sent, their numbers and partitions, and the inputs that their delivery settles."""

import re
from collections.abc import Callable
from typing import Any

from spout_sdk.emitting.ack_buffer import FULL, MAX_MESSAGE, AckBuffer
from spout_sdk.emitting.input_offsets import InputOffsets
from tests.unit.sdk.memory import MemorySink, open_pack
from tuple_tree.messages import SpoutAddress, decode_ack_batch

SESSION = bytes(range(16))


class Rig:
    def __init__(self, *, partitions: int = 4, holds_back: bool = False, spout: SpoutAddress | None = None) -> None:
        self.sink = MemorySink(holds_back=holds_back)
        self.inputs = InputOffsets()
        self.acks = AckBuffer("t.acks", partitions, "split/0", SESSION, self.sink, self.inputs, spout)

    def ack(self, *roots: int) -> None:
        """Inputs whose offsets are their roots."""
        for root in roots:
            self.read(root)
        self.acks.flush()

    def ack_one(self, root: int) -> None:
        self.acks.add_to_ack(root)
        self.acks.add_to_ack(1)

    def read(self, root: int) -> None:
        """Reads and acks an input whose offset is its root."""
        self.inputs.open(pack := open_pack(root))
        self.ack_one(root)
        self.acks.cover(pack)


def test_a_full_batch_is_sent_immediately() -> None:
    rig = Rig(partitions=1)
    for offset in range(FULL):
        assert not rig.sink.reported
        rig.read(offset)
    assert [len(batch) for batch in rig.sink.batches] == [FULL]
    assert rig.inputs.committable == FULL


def test_long_messages_are_cut_and_fill_a_batch_sooner() -> None:
    rig = Rig(partitions=1)
    for root in range(FULL):
        rig.acks.fail(root, "x" * 10_000)
    rig.acks.flush()
    assert {len(message) for batch in rig.sink.batches for message in batch.fail_messages} == {MAX_MESSAGE}
    assert max(len(sent.value or b"") for sent in rig.sink.reported) < 200_000


def test_inputs_are_settled_when_all_batches_of_their_flush_are_delivered() -> None:
    rig = Rig(partitions=2, holds_back=True)
    rig.ack(0, 1, 2, 3)
    assert (rig.inputs.committable, rig.acks.in_flight) == (0, 2)
    even, odd = rig.sink.reported
    odd.deliver()
    assert rig.inputs.committable == 0
    even.deliver()
    assert (rig.inputs.committable, rig.acks.in_flight) == (4, 0)


def test_a_record_is_done_when_all_sends_up_to_its_last_ack_are_delivered() -> None:
    rig = Rig(partitions=2, holds_back=True)
    rig.inputs.open(pack := open_pack(0, 3))
    for root in (1, 2, 3):
        rig.ack_one(root)
        rig.acks.flush()
    # A tuple without a tree is the last one: nothing about it is sent.
    rig.acks.cover(pack)
    for sent in (2, 0, 1):
        assert rig.inputs.committable == 0
        rig.sink.reported[sent].deliver()
    assert rig.inputs.committable == 1
    rig.inputs.open(pack := open_pack(1))
    rig.acks.cover(pack)
    assert rig.inputs.committable == 2


def test_a_batch_never_exceeds_the_size_limit_of_a_record() -> None:
    rig = Rig(partitions=1)
    rig.inputs.open(pack := open_pack(0))
    for root in range(100_000):
        rig.ack_one(root)
    rig.acks.cover(pack)
    assert sorted(root for batch in rig.sink.batches for root in batch.ack_roots.tolist()) == list(range(100_000))
    assert max(len(sent.value or b"") for sent in rig.sink.reported) < 600_000
    assert rig.inputs.committable == 1


def test_a_batch_that_is_not_delivered_settles_nothing_and_stops_the_writer() -> None:
    rig = Rig(partitions=3, holds_back=True)
    rig.ack(0, 1, 2)
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


def test_an_ack_does_not_overtake_a_batch_that_waits_for_room() -> None:
    rig = Rig(partitions=2)
    rig.acks = AckBuffer("t.acks", 2, "split/0", SESSION, sink := FullQueue(), rig.inputs)

    def ack(first: int) -> None:
        for offset in range(first, first + FULL):
            rig.read(offset)

    # The reports may be those of dead letters, whose inputs are acked then.
    sink.reports = lambda: ack(FULL)
    ack(0)
    rig.acks.flush()
    for partition in range(2):
        batches = [decode_ack_batch(sent.value) for sent in sink.reported if sent.partition == partition]
        # An acker drops a batch with a lower number as a repeat.
        assert [batch.sequence for batch in batches] == list(range(len(batches)))
    assert sum(len(batch.ack_roots) for batch in sink.batches) == rig.inputs.committable == 2 * FULL
