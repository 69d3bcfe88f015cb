"""A tuple, and an ack batch, that a real broker does not take."""

import os

from spout_sdk import FailReason
from tests.contract.components import ack, alone
from tests.contract.real import RealWorld
from tuple_tree.names import acks_topic, tuples_topic


def test_a_tuple_that_the_broker_refuses_fails_its_tree_and_no_other(world: RealWorld) -> None:
    builder = world.builder()
    messages, does = alone(builder, ack)
    messages.say("short")
    topology = builder.build()
    with world.run(topology) as running:
        running.cluster.set_config(tuples_topic(topology.name, "does"), "max.message.bytes", "2000")
        running.eventually(lambda: messages.acked, "the first message acked")
        messages.say(os.urandom(4_000).hex(), message_id="long")
        running.eventually(lambda: messages.failed, "the long one failed")
        messages.say("short again")
        running.eventually(lambda: len(messages.acked) == 2, "another one acked")
        assert running.stats("says").undelivered == 1
    assert does.words == messages.acked_ids == ["short", "short again"]
    ((_, message_id, failure),) = messages.failed
    assert (message_id, failure.reason) == ("long", FailReason.FAILED)
    assert failure.message.startswith("a tuple of says was not delivered: ")


def test_an_ack_batch_that_the_broker_refuses_stops_the_process(world: RealWorld) -> None:
    builder = world.builder(ack_partitions=1)
    messages, does = alone(builder, ack)
    messages.say("untracked", message_id=None)
    topology = builder.build()
    with world.run(topology) as running:
        running.eventually(lambda: running.committed("does") == {0: 1}, "the bolt at work")
        running.cluster.set_config(acks_topic(topology.name), "max.message.bytes", "10")
        messages.say("tracked")
        for component in ("does", "says"):
            said = running.threads[component].last_words()
            assert "was not delivered" in said
            assert "restart the process" in said
        assert does.words == ["untracked", "tracked"]
        assert running.committed("does") == {0: 1}
