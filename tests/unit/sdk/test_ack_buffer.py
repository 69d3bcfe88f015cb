"""The ack buffer: when batches go out, how they are numbered, and what their delivery settles."""

from collections.abc import Callable
from typing import Any

import pytest

from spout_sdk.ack_buffer import FULL, LINGER_SECONDS, MAX_MESSAGE, AckBuffer
from spout_sdk.errors import DeliveryError
from spout_sdk.input_offsets import InputOffsets
from tests.unit.sdk.memory import MemorySink
from tuple_tree.codec import decode_ack_batch
from tuple_tree.messages import SpoutTask

SESSION = bytes(range(16))


class Rig:
    def __init__(self, *, partitions: int = 4, holds_back: bool = False, spout: SpoutTask | None = None) -> None:
        self.sink = MemorySink(holds_back=holds_back)
        self.inputs = InputOffsets()
        self.acks = AckBuffer("t.acks", partitions, "split/0", SESSION, self.sink, self.inputs, spout)


def test_a_session_opens_on_every_partition_with_sequence_zero() -> None:
    rig = Rig()
    rig.acks.open()
    assert [sent.partition for sent in rig.sink.reported] == [0, 1, 2, 3]
    for batch in rig.sink.all_batches:
        assert (batch.writer, batch.session, batch.sequence, batch.opens, len(batch)) == (
            "split/0",
            SESSION,
            0,
            True,
            0,
        )


def test_sequences_rise_per_partition() -> None:
    rig = Rig()
    rig.acks.open()
    for root in (4, 8, 5, 12):
        rig.acks.reset(root)
        rig.acks.flush()
    numbered = [
        (sent.partition, batch.sequence) for sent, batch in zip(rig.sink.reported, rig.sink.all_batches, strict=True)
    ]
    assert numbered[4:] == [(0, 1), (0, 2), (1, 1), (0, 3)]


def test_roots_go_to_root_mod_partitions_unsigned() -> None:
    rig = Rig(partitions=7)
    root = 2**64 - 3
    rig.inputs.start(0)
    rig.acks.ack(root, 5, 0)
    rig.acks.flush()
    (sent,) = rig.sink.reported
    assert sent.partition == root % 7
    assert rig.sink.batches[0].ack_roots.tolist() == [root]


def test_a_full_batch_goes_out_at_once() -> None:
    rig = Rig(partitions=1)
    for offset in range(FULL):
        assert not rig.sink.reported
        rig.inputs.start(offset)
        rig.acks.ack(offset, 1, offset)
    assert [len(batch) for batch in rig.sink.batches] == [FULL]
    assert rig.inputs.committable == FULL


def test_long_messages_are_cut_and_fill_a_batch_sooner() -> None:
    rig = Rig(partitions=1)
    for root in range(FULL):
        rig.acks.fail(root, "x" * 10_000)
    rig.acks.flush()
    assert {len(message) for batch in rig.sink.batches for message in batch.fail_messages} == {MAX_MESSAGE}
    assert max(len(sent.value or b"") for sent in rig.sink.reported) < 200_000


def test_what_lingers_goes_out_after_five_milliseconds() -> None:
    rig = Rig()
    rig.acks.tick(10.0)
    rig.acks.reset(1)
    rig.acks.tick(20.0)
    rig.acks.reset(2)
    rig.acks.tick(20.0 + LINGER_SECONDS * 0.9)
    assert not rig.sink.reported
    rig.acks.tick(20.0 + LINGER_SECONDS * 1.1)
    assert len(rig.sink.reported) == 2
    rig.acks.tick(21.0)
    assert len(rig.sink.reported) == 2


def test_inits_name_the_spout_and_other_batches_do_not() -> None:
    spout = SpoutTask("t.notices.lines", 2, 30_000)
    rig = Rig(partitions=1, spout=spout)
    rig.acks.init(9, 77)
    rig.acks.flush()
    rig.acks.fail(9, "why")
    rig.acks.flush()
    first, second = rig.sink.batches
    assert (first.spout, first.init_roots.tolist(), first.init_vals.tolist()) == (spout, [9], [77])
    assert (second.spout, second.fail_roots.tolist(), second.fail_messages) == (None, [9], ("why",))


def test_inputs_are_settled_by_the_delivery_report_and_not_before() -> None:
    rig = Rig(partitions=2, holds_back=True)
    for offset in range(4):
        rig.inputs.start(offset)
        rig.acks.ack(offset, 1, offset)
    rig.acks.flush()
    assert (rig.inputs.committable, rig.acks.in_flight) == (0, 2)
    even, odd = rig.sink.reported
    odd.deliver()
    assert rig.inputs.committable == 0
    even.deliver()
    assert (rig.inputs.committable, rig.acks.in_flight) == (4, 0)


def test_an_input_of_several_roots_waits_for_all_of_them() -> None:
    rig = Rig(partitions=2, holds_back=True)
    rig.inputs.start(0)
    rig.inputs.split(0, 3)
    for root in (1, 2, 3):
        rig.acks.ack(root, 1, 0)
    rig.acks.flush()
    even, odd = rig.sink.reported
    odd.deliver()
    assert rig.inputs.committable == 0
    even.deliver()
    assert rig.inputs.committable == 1


def test_a_batch_that_is_not_delivered_stops_the_writer_and_settles_nothing() -> None:
    rig = Rig(partitions=1, holds_back=True)
    rig.inputs.start(0)
    rig.acks.ack(1, 1, 0)
    rig.acks.flush()
    rig.sink.deliver_all("timed out")
    assert rig.inputs.committable == 0
    with pytest.raises(DeliveryError, match=r"split/0 for t.acks\[0\] was not delivered \(timed out\); restart"):
        rig.acks.tick(1.0)


def test_what_was_sent_together_is_settled_together_or_not_at_all() -> None:
    rig = Rig(partitions=3, holds_back=True)
    for offset in range(3):
        rig.inputs.start(offset)
        rig.acks.ack(offset, 1, offset)
    rig.acks.flush()
    first, second, third = rig.sink.reported
    first.deliver()
    second.deliver("timed out")
    third.deliver()
    assert (rig.inputs.committable, rig.acks.in_flight) == (0, 0)
    with pytest.raises(DeliveryError, match=r"for t.acks\[1\] was not delivered"):
        rig.acks.tick(1.0)


class Crowded(MemorySink):
    """Has no room at first: before a record is taken, delivery reports of others are heard."""

    def __init__(self) -> None:
        super().__init__()
        self.hears: Callable[[], None] | None = None

    def send_reported(self, *record: Any) -> None:
        hears, self.hears = self.hears, None
        if hears is not None:
            hears()
        super().send_reported(*record)


def test_what_is_acked_while_a_batch_waits_for_room_does_not_overtake_it() -> None:
    rig = Rig(partitions=2)
    rig.acks = AckBuffer("t.acks", 2, "split/0", SESSION, sink := Crowded(), rig.inputs)
    offsets = range(2 * FULL)
    for offset in offsets:
        rig.inputs.start(offset)

    def ack(those: range) -> None:
        for offset in those:
            rig.acks.ack(offset, 1, offset)

    # Dead letters that were delivered, for example.
    sink.hears = lambda: ack(offsets[FULL:])
    ack(offsets[:FULL])
    rig.acks.flush()
    for partition in range(2):
        batches = [decode_ack_batch(sent.value) for sent in sink.reported if sent.partition == partition]
        # An acker takes a batch with a lower number for a repeat.
        assert [batch.sequence for batch in batches] == list(range(len(batches)))
    assert sum(len(batch.ack_roots) for batch in sink.batches) == 2 * FULL
    assert rig.inputs.committable == 2 * FULL
