"""Records of the topics, and committed offsets."""

from collections import defaultdict
from functools import partial
from typing import Any

from spout_sdk import FailReason, OutputCollector, Tuple
from tests.contract.components import (
    Executed,
    FunctionBolt,
    Hold,
    Messages,
    MessageSpout,
    ack,
    alone,
    line,
    packed,
    pass_on,
    tuples_in,
)
from tests.contract.world import World
from tests.packs import anchor_headers, edges_in
from tuple_tree.messages import decode_ack_batch
from tuple_tree.names import acks_topic, dead_letters_topic, tuples_topic
from tuple_tree.routing import fields_task


class Records:
    """The part of the contract about records in the topics."""

    def test_the_wire(self, world: World) -> None:
        """Order within a partition, the partition by the grouping, and the content of tuples and ack batches."""
        messages, one, two = Messages(), Executed(pass_on), Executed(ack)
        builder = world.builder(ack_partitions=3)
        builder.set_spout("spout", partial(MessageSpout, messages))
        builder.set_bolt("one", partial(FunctionBolt, one)).shuffle_grouping("spout")
        builder.set_bolt("two", partial(FunctionBolt, two), tasks=3).fields_grouping("one", "word")
        words = ("alpha", "beta", "gamma", "delta", "epsilon")
        for number in range(100):
            messages.add(words[number % len(words)], number, message_id=number)
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: len(messages.acked) == 100, "every message acked")
            first = running.records(tuples_topic(topology.name, "one"))
            second = running.records(tuples_topic(topology.name, "two"))
            batches = running.records(acks_topic(topology.name))
            running.eventually(lambda: running.has_committed_all("two"), "everything committed")

        assert sorted(messages.acked_ids) == list(range(100))
        assert [number for _, _, number in one.seen] == list(range(100))
        by_task: dict[int, list[int]] = defaultdict(list)
        for task, word, number in two.seen:
            assert task == fields_task(word.encode(), 3)
            by_task[task].append(number)
        assert all(numbers == sorted(numbers) for numbers in by_task.values())

        assert [number for (_, number), _ in tuples_in(first)] == list(range(100))
        for record in [*first, *second]:
            assert [name for name, _ in record.headers] == ["anchors", "source"]
            assert (record.key, record.header["source"]) == (
                None, b"spout/default" if record in first else b"one/default"
            )  # fmt: skip
            assert record in first or {fields_task(word.encode(), 3) for (word, _), _ in tuples_in([record])} == {
                record.partition
            }
        assert sorted(map(list, (edges for _, edges in tuples_in(first)))) == sorted(
            map(list, (edges for _, edges in tuples_in(second)))
        )

        sequences: dict[Any, list[tuple[int, bool]]] = defaultdict(list)
        for record in batches:
            assert record.timestamp_type == 2  # the broker's time
            batch = decode_ack_batch(record.value)
            assert all(root % 3 == record.partition for root in [*batch.init_roots.tolist(), *batch.ack_roots.tolist()])
            sequences[batch.writer, record.partition, batch.session].append((batch.sequence, batch.opens))
        assert sorted((writer, partition) for writer, partition, _ in sequences) == [
            (writer, partition) for writer in ("one/0", "spout/0", "two/0", "two/1", "two/2") for partition in range(3)
        ]
        for of_session in sequences.values():
            assert of_session == [(number, number == 0) for number in range(len(of_session))]

    def test_a_dead_letter_fails_its_trees_and_the_bolt_continues(self, world: World) -> None:
        builder = world.builder()
        messages, one, two = line(builder, pass_on, Hold("held"))
        topology = builder.build()
        inbox = tuples_topic(topology.name, "one")
        with world.run(topology) as running:
            messages.add("held")
            running.eventually(lambda: two.words, "it is held")
            (record,) = running.records(tuples_topic(topology.name, "two"))
            (root,) = edges_in(record.header.items())[0]
            of_its_tree = [*anchor_headers([{root: 1}]), ("source", b"spout/default"), ("mine", b"x")]
            running.append(inbox, 0, b"\xff\xfe", of_its_tree)
            running.append(inbox, 0, b"", [("source", b"spout/default")])
            messages.add("after")
            running.eventually(lambda: messages.failed and messages.acked, "both messages have an outcome")
            running.eventually(lambda: running.committed("one") == {0: 4}, "everything committed")
            garbage, empty = running.records(dead_letters_topic(topology.name))
        ((_, message_id, failure),) = messages.failed
        assert (message_id, failure.reason) == ("held", FailReason.FAILED)
        assert failure.message.startswith("one: dead letter, ")
        assert (messages.acked_ids, one.words) == (["after"], ["held", "after"])
        assert (garbage.value, empty.value) == (b"\xff\xfe", b"")
        assert garbage.headers[:3] == tuple(of_its_tree)
        shown = {name.removeprefix("dead-letter."): text.decode() for name, text in garbage.headers[3:]}
        assert shown.pop("detail")
        assert shown == {"topic": inbox, "partition": "0", "offset": "1", "reason": "bad-payload", "by": "one/0"}

    def test_untracked_tuples_have_no_tree(self, world: World) -> None:
        builder = world.builder(ack_partitions=2)
        messages, _, two = line(builder, pass_on)
        messages.add("untracked", message_id=None)
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: two.words, "it arrived")
            running.eventually(lambda: running.committed("two") == {0: 1}, "everything committed")
            for bolt, source in (("one", b"spout/default"), ("two", b"one/default")):
                (record,) = running.records(tuples_topic(topology.name, bolt))
                assert record.headers == (("source", source),)
            acks = [decode_ack_batch(record.value) for record in running.records(acks_topic(topology.name))]
            assert all(batch.opens for batch in acks)
        assert not messages.acked
        assert not messages.failed

    def test_only_settled_inputs_are_committed(self, world: World) -> None:
        messages, executed = Messages(), Executed(Hold("held"))
        builder = world.builder(pack_tuples=1)
        builder.set_spout("spout", partial(MessageSpout, messages))
        builder.set_bolt("bolt", partial(FunctionBolt, executed), tasks=2).fields_grouping("spout", "number")
        numbers = {fields_task(str(number).encode(), 2): number for number in range(20)}
        for word in ("a", "b", "held", "c"):
            messages.add(word, numbers[0])
        with world.run(builder.build()) as running:
            running.eventually(lambda: len(messages.acked) == 3, "all but one acked")
            running.eventually(lambda: running.committed("bolt") == {0: 2, 1: 0}, "two committed")
            messages.add("d", numbers[1])
            # With this commit the other task's offset would follow, were it free to.
            running.eventually(lambda: running.committed("bolt")[1] == 1, "the other task's tuple committed")
            assert running.committed("bolt")[0] == 2
            messages.add("release", numbers[0])
            running.eventually(lambda: running.committed("bolt") == {0: 5, 1: 1}, "all committed")
        assert len(messages.acked) == 6

    def test_a_record_is_committed_when_all_of_its_tuples_are_settled(self, world: World) -> None:
        messages, executed = alone(builder := world.builder(), Hold("held"))
        topology = builder.build()
        with world.run(topology) as running:
            for words in (("a", "b"), ("c", "held", "d"), ("e", "f")):
                payload = packed(*((word, 0) for word in words))
                running.append(tuples_topic(topology.name, "bolt"), 0, payload, [("source", b"spout/default")])
            running.eventually(lambda: executed.words == [*"abc", "held", *"def"], "all executed")
            running.eventually(lambda: running.committed("bolt") == {0: 1}, "the first record committed")
            messages.add("release")
            running.eventually(lambda: running.has_committed_all("bolt"), "all committed")
            running.eventually(lambda: len(messages.acked) == 1, "the one message acked")

    def test_with_at_most_once_a_message_is_acked_at_once(self, world: World) -> None:
        def refuse(tuple_: Tuple, collector: OutputCollector) -> None:
            collector.fail(tuple_, "without a consequence")

        builder = world.builder(guarantee="at_most_once")
        messages = Messages()
        builder.set_spout("spout", partial(MessageSpout, messages), tasks=2)
        builder.set_bolt("bolt", partial(FunctionBolt, Executed(refuse))).shuffle_grouping("spout")
        messages.add("a")
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: messages.acked, "the message acked")
            running.eventually(lambda: running.committed("bolt") == {0: 1}, "everything committed")
            (record,) = running.records(tuples_topic(topology.name, "bolt"))
            assert messages.tasks == {0, 1}
        assert record.headers == (("source", b"spout/default"),)
        assert not messages.failed
