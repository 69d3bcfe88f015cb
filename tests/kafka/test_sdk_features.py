"""Streams, batches, ticks, hooks and failures, in processes on a real Kafka."""

from collections import Counter

import pytest

from examples.orders import LARGE, ORDERS, UNREADABLE
from spout_sdk import Exit, ProcessError, TopologyRunner
from tests.kafka.sdk_rig import ToyAcker, Use, headers_of, value
from tests.kafka.sdk_topologies import LINES
from tests.waiting import eventually
from tuple_tree.routing import partial_key_tasks
from tuple_tree.streams import payload_codec

MODULE = "tests.kafka.sdk_topologies"

BAD = ORDERS // UNREADABLE
READABLE = [number for number in range(ORDERS) if number % UNREADABLE != UNREADABLE - 1]
BOOKED = [number for number in READABLE if number % 1_000 < LARGE]


def test_every_order_is_booked_reviewed_or_set_aside(use: Use) -> None:
    cluster = use("orders")
    name = cluster.manifest.topology
    with ToyAcker(cluster) as acker, TopologyRunner(f"{MODULE}:orders", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["orders"].counters.get("orders") == ORDERS, "every order acked")
        runner.stop()
        stats = runner.stats()

    assert (stats["orders"].emitted, stats["orders"].failed, stats["orders"].pending) == (ORDERS, {}, 0)
    assert len(acker.acked) == ORDERS
    assert not acker.failed

    # What raised is a dead letter, and its trees went on without it.
    assert (stats["check"].errors, stats["check"].dead_letters) == (BAD, BAD)
    assert stats["check"].last_error == "ValueError: invalid literal for int() with base 10: 'a lot'"
    letters = cluster.records(f"{name}.dead-letters")
    assert {headers_of(letter)["dead-letter.reason"] for letter in letters} == {b"exception"}
    assert len(letters) == BAD

    # Streams: the large ones went to people, the others to the price.
    assert stats["review"].counters == {"reviewed": len(READABLE) - len(BOOKED)}
    assert stats["price"].executed == len(BOOKED)
    assert stats["ledger"].counters == {
        "booked": len(BOOKED),
        "tax": sum(number % 1_000 * 100 * 19 // 100 for number in BOOKED),
    }

    # Batches: fewer calls than tuples, all timed.
    assert 0 < stats["price"].execute_latency.total < len(BOOKED) / 2

    # A tick acks what was held for it, so the ledger takes longer to ack than to execute.
    assert stats["ledger"].process_latency.quantile(0.5) > 10 * stats["ledger"].execute_latency.quantile(0.5)

    # Groupings: one of two tasks for a key; the ledger that the price has named.
    for record in cluster.records(f"{name}.tuples.price"):
        assert record.partition() in partial_key_tasks(record.key() or b"", 2)
    codec = payload_codec(cluster.manifest.stream("price", "default"))
    for record in cluster.records(f"{name}.tuples.ledger"):
        number, _, _ = codec.decode(value(record))
        assert record.partition() == number // 100 % 3

    # The hook of every task has seen what it emitted, and to whom.
    assert stats["price"].counters == {
        f"default to ledger/{task}": len([None for number in BOOKED if number // 100 % 3 == task]) for task in range(3)
    }


def test_a_bolt_that_fails_too_often_in_a_row_stops_everything_with_a_clear_line(use: Use) -> None:
    cluster = use("broken")
    exits: list[Exit] = []
    runner = TopologyRunner(f"{MODULE}:broken", cluster.kafka, on_exit=exits.append)
    with ToyAcker(cluster), pytest.raises(ProcessError) as stopped:
        runner.run()
    assert "hold/0 stopped: 5 calls of execute() in a row raised, the last one OSError: no disk" in str(stopped.value)
    assert [exit_.restarts_in for exit_ in exits] == [None]
    assert Counter(runner.stats()["hold"].failed)["failed"] <= LINES
