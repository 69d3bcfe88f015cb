"""What lies in the topics, and how far it is committed."""

from collections import defaultdict
from functools import partial
from typing import Any

import pytest

from spout_sdk import OutputCollector, Tuple
from tests.contract.components import CODEC, Does, Executed, Hold, Messages, Says, ack, alone, line, pass_on
from tests.contract.world import Running, World
from tuple_tree.anchors import unpack_anchors
from tuple_tree.codec import decode_ack_batch
from tuple_tree.messages import AckBatch
from tuple_tree.names import acks_topic, dead_letters_topic, tuples_topic
from tuple_tree.routing import fields_task


def said_to_ackers(running: Running) -> list[AckBatch]:
    """The ack batches of all writers, without those that only open a session."""
    records = running.records(acks_topic(running.topology.name))
    batches = [decode_ack_batch(record.value) for record in records]
    return [batch for batch in batches if not batch.opens]


class Records:
    """The part of the contract that looks into the topics."""

    def test_the_wire(self, world: World) -> None:
        """Order within a partition, the partition by the grouping, and what stands in a record."""
        messages, one, two = Messages(), Executed(pass_on), Executed(ack)
        builder = world.builder(ack_partitions=3)
        builder.set_spout("says", partial(Says, messages))
        builder.set_bolt("one", partial(Does, one)).shuffle_grouping("says")
        builder.set_bolt("two", partial(Does, two), tasks=3).fields_grouping("one", "word")
        words = ("alpha", "beta", "gamma", "delta", "epsilon")
        for number in range(100):
            messages.say(words[number % len(words)], number, message_id=number)
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: len(messages.acked) == 100, "every message acked")
            first = running.records(tuples_topic(topology.name, "one"))
            second = running.records(tuples_topic(topology.name, "two"))
            batches = running.records(acks_topic(topology.name))
            running.eventually(lambda: sum(running.committed("two").values()) == 100, "everything committed")

        assert sorted(messages.acked_ids) == list(range(100))
        assert [number for _, _, number in one.seen] == list(range(100))
        by_task: dict[int, list[int]] = defaultdict(list)
        for task, word, number in two.seen:
            assert task == fields_task(word.encode(), 3)
            by_task[task].append(number)
        assert all(numbers == sorted(numbers) for numbers in by_task.values())

        assert [record.offset for record in first] == list(range(100))
        for record in first:
            assert [name for name, _ in record.headers] == ["anchors", "source"]
            assert (record.key, record.header["source"]) == (None, b"says/default")
        for record in second:
            word, _ = CODEC.decode(record.value or b"")
            assert (record.key, record.partition) == (word.encode(), fields_task(word.encode(), 3))
            assert record.header["source"] == b"one/default"
        roots = [list(unpack_anchors(record.header["anchors"])) for record in first]
        assert sorted(roots) == sorted(list(unpack_anchors(record.header["anchors"])) for record in second)
        for record in batches:
            assert record.timestamp_type == 2  # the broker's time
            batch = decode_ack_batch(record.value)
            assert all(root % 3 == record.partition for root in [*batch.init_roots.tolist(), *batch.ack_roots.tolist()])

    def test_sessions_open_first_and_sequences_have_no_gaps(self, world: World) -> None:
        builder = world.builder(ack_partitions=2)
        messages, *_ = line(builder, pass_on)
        for number in range(10):
            messages.say(f"w{number}")
        with world.run(builder.build()) as running:
            running.eventually(lambda: len(messages.acked) == 10, "every message acked")
            seen: dict[Any, list[tuple[int, bool]]] = defaultdict(list)
            for record in running.records(acks_topic(running.topology.name)):
                batch = decode_ack_batch(record.value)
                seen[batch.writer, batch.session, record.partition].append((batch.sequence, batch.opens))
        assert {(writer, partition) for writer, _, partition in seen} == {
            (writer, partition) for writer in ("says/0", "one/0", "two/0") for partition in range(2)
        }
        for batches in seen.values():
            assert batches == [(number, number == 0) for number in range(len(batches))]

    def test_notices_reach_the_task_that_emitted(self, world: World) -> None:
        messages, executed = Messages(), Executed(ack)
        builder = world.builder(ack_partitions=2)
        builder.set_spout("says", partial(Says, messages), tasks=3)
        builder.set_bolt("does", partial(Does, executed), tasks=2).shuffle_grouping("says")
        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.tasks == {0, 1, 2}, "three tasks")
            for number in range(60):
                messages.say(f"w{number}")
            running.eventually(lambda: len(messages.acked) == 60, "every message acked")
            batches = said_to_ackers(running)
            assert running.stats("says").ignored_notices == 0
        assert sorted(messages.acked_ids) == sorted(f"w{number}" for number in range(60))
        inits = dict.fromkeys(range(3), 0)
        for batch in batches:
            if batch.spout is not None:
                assert batch.writer == f"says/{batch.spout.task}"
                inits[batch.spout.task] += len(batch.init_roots)
        assert inits == {task: sum(heard == task for heard, _ in messages.acked) for task in range(3)}

    @pytest.mark.parametrize("value", [b"\xff\xfe", b""])
    def test_what_cannot_be_read_is_a_dead_letter(self, world: World, value: bytes) -> None:
        builder = world.builder()
        messages, executed = alone(builder, ack)
        topology = builder.build()
        inbox = tuples_topic(topology.name, "does")
        with world.run(topology) as running:
            messages.say("before")
            running.eventually(lambda: messages.acked, "the first message acked")
            running.append(inbox, 0, value, [("source", b"says/default"), ("mine", b"x")])
            messages.say("after")
            running.eventually(lambda: len(messages.acked) == 2, "both messages acked")
            running.eventually(lambda: running.committed("does") == {0: 3}, "everything committed")
            (letter,) = running.records(dead_letters_topic(topology.name))
        assert executed.words == ["before", "after"]
        assert letter.value == value
        assert letter.headers[:2] == (("source", b"says/default"), ("mine", b"x"))
        said = {name.removeprefix("dead-letter."): text.decode() for name, text in letter.headers[2:]}
        assert said.pop("detail")
        assert said == {"topic": inbox, "partition": "0", "offset": "1", "reason": "bad-payload", "by": "does/0"}

    def test_untracked_tuples_have_no_tree(self, world: World) -> None:
        builder = world.builder(ack_partitions=2)
        messages, _, two = line(builder, pass_on)
        messages.say("untracked", message_id=None)
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: two.words, "it arrived")
            running.eventually(lambda: running.committed("two") == {0: 1}, "everything committed")
            for bolt, source in (("one", b"says/default"), ("two", b"one/default")):
                (record,) = running.records(tuples_topic(topology.name, bolt))
                assert record.headers == (("source", source),)
            assert not said_to_ackers(running)
        assert not messages.acked
        assert not messages.failed

    def test_only_what_is_settled_is_committed(self, world: World) -> None:
        builder = world.builder()
        messages, _ = alone(builder, Hold("held"))
        for word in ("a", "b", "held", "c"):
            messages.say(word)
        with world.run(builder.build()) as running:
            running.eventually(lambda: len(messages.acked) == 3, "all but one acked")
            running.eventually(lambda: running.committed("does") == {0: 2}, "two committed")
            running.let_pass(1.5)
            assert running.committed("does") == {0: 2}
            messages.say("release")
            running.eventually(lambda: running.committed("does") == {0: 5}, "all committed")
        assert len(messages.acked) == 5

    def test_with_at_most_once_a_message_is_acked_at_once(self, world: World) -> None:
        def refuse(tuple_: Tuple, collector: OutputCollector) -> None:
            collector.fail(tuple_, "nobody hears this")

        builder = world.builder(guarantee="at_most_once")
        messages, _ = alone(builder, refuse)
        messages.say("a")
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: messages.acked, "the message acked")
            running.eventually(lambda: running.committed("does") == {0: 1}, "everything committed")
            (record,) = running.records(tuples_topic(topology.name, "does"))
        assert record.headers == (("source", b"says/default"),)
        assert not messages.failed
