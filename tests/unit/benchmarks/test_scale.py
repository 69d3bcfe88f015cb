"""The arithmetic of many machines: bytes by the real codec, and what follows from them."""

import pytest

from benchmarks.scale import Assumptions, Costs, ack_bytes, notice_bytes, record_bytes, scale, tuple_bytes, varint


def test_an_entry_is_sixteen_bytes_and_a_notice_eight() -> None:
    # What is around the columns grows by a byte or two, where a length takes one more byte.
    for inits in (False, True):
        assert ack_bytes(4_000, inits=inits) - ack_bytes(2_000, inits=inits) == pytest.approx(16 * 2_000, abs=8)
    assert notice_bytes(4_000) - notice_bytes(2_000) == pytest.approx(8 * 2_000, abs=8)


def test_a_record_as_kafka_writes_it() -> None:
    assert [varint(number) for number in (-1, 0, 63, 64, 8_191, 8_192)] == [1, 1, 1, 2, 2, 3]
    # Length, attributes, time, offset, no key, value, no headers.
    assert record_bytes(5, {}, 0) == 1 + 1 + 1 + 1 + 1 + (1 + 5) + 1
    assert record_bytes(5, {"k": b"abc"}, 0) == record_bytes(5, {}, 0) + (1 + 1) + (1 + 3)
    assert tuple_bytes(100, 1) - tuple_bytes(100, 1e9) == pytest.approx(61, abs=0.01)


def test_what_a_million_trees_a_second_take() -> None:
    costs = Costs(spout=6, bolt=5, last=4, ack_record=10, ack_entry=0.05)
    found = scale(Assumptions(rate=1e6, hops=3, partitions=8, linger_ms=5, use=0.5), costs)
    assert (found.spouts, found.bolts, found.lasts, found.writers) == (12, 20, 8, 40)
    assert found.ack_batches == 40 * 8 * 200
    assert found.entries_a_batch == pytest.approx(4e6 / 64_000)
    assert found.acker_processors == pytest.approx(0.64 + 0.2)
    assert found.ackers == 2
    # Half a processor, less the entries of a partition, over 200 batches a second of 10 microseconds.
    assert found.most_writers == int((0.5 - 0.025) / 0.002)
    assert found.ledger_mb == pytest.approx(1e5 * 48 / 1e6)


def test_full_batches_of_few_partitions_cost_less() -> None:
    many, few, slow = (
        scale(Assumptions(partitions=partitions, linger_ms=linger))
        for partitions, linger in ((32, 5), (8, 5), (32, 20))
    )
    assert few.acker_processors < many.acker_processors
    assert few.ack_mb < many.ack_mb
    # Four times the linger is as good as a quarter of the partitions.
    assert slow.acker_processors == pytest.approx(few.acker_processors)
    assert slow.most_writers > 3 * many.most_writers


def test_a_quiet_topology_has_a_batch_for_each_entry_and_no_more() -> None:
    found = scale(Assumptions(rate=10))
    assert found.ack_batches == 40
    assert found.entries_a_batch == 1
