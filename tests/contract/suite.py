"""The contract: what every world in which a topology runs must do."""

from collections import defaultdict
from functools import partial
from typing import Any

import pytest

from spout_sdk import FailReason, FailTupleError, Failure, OutputCollector, TopologyBuilder, Tuple
from tests.contract.components import STREAMS, Does, Execute, Executed, Hold, Messages, Says, ack, pass_on
from tests.contract.world import Running, World
from tuple_tree.anchors import pack_anchors, unpack_anchors
from tuple_tree.codec import decode_ack_batch
from tuple_tree.messages import AckBatch
from tuple_tree.names import acks_topic, dead_letters_topic, tuples_topic
from tuple_tree.routing import fields_task
from tuple_tree.streams import payload_codec

CODEC = payload_codec(STREAMS[0])


def line(builder: TopologyBuilder, first: Execute, second: Execute = ack) -> tuple[Messages, Executed, Executed]:
    """A spout and two bolts, one behind the other."""
    messages, one, two = Messages(), Executed(first), Executed(second)
    builder.set_spout("says", partial(Says, messages))
    builder.set_bolt("one", partial(Does, one)).shuffle_grouping("says")
    builder.set_bolt("two", partial(Does, two)).shuffle_grouping("one")
    return messages, one, two


def alone(builder: TopologyBuilder, execute: Execute) -> tuple[Messages, Executed]:
    """A spout and a bolt."""
    messages, executed = Messages(), Executed(execute)
    builder.set_spout("says", partial(Says, messages))
    builder.set_bolt("does", partial(Does, executed)).shuffle_grouping("says")
    return messages, executed


def said_to_ackers(running: Running) -> list[AckBatch]:
    """The ack batches of all writers, without those that only open a session."""
    records = running.records(acks_topic(running.topology.name))
    batches = [decode_ack_batch(record.value) for record in records]
    return [batch for batch in batches if not batch.opens]


class Contract:
    """To be derived from, with a fixture `world`."""

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

    def test_a_message_is_acked_after_its_whole_tree(self, world: World) -> None:
        builder = world.builder()
        messages, _, two = line(builder, pass_on, Hold("held"))
        messages.say("held")
        messages.say("free")
        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.acked_ids == ["free"] and "held" in two.words, "one held, one acked")
            running.let_pass(0.3)
            assert messages.acked_ids == ["free"]
            messages.say("release")
            running.eventually(lambda: len(messages.acked) == 3, "all acked")
            assert running.stats("says").pending == 0
        assert not messages.failed

    def test_a_failed_message_is_told_why_and_its_replay_is_a_new_tree(self, world: World) -> None:
        attempts: list[int] = []

        def once(tuple_: Tuple, collector: OutputCollector) -> None:
            attempts.append(*tuple_.roots)
            if len(attempts) == 1:
                raise FailTupleError("not yet")
            collector.ack(tuple_)

        builder = world.builder()
        messages, *_ = line(builder, pass_on, once)
        messages.replays = True
        messages.say("again")
        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.acked, "the replay acked")
            stats = running.stats("says")
        assert messages.failed == [(0, "again", Failure(FailReason.FAILED, "not yet"))]
        assert messages.acked == [(0, "again")]
        assert len(set(attempts)) == 2
        assert (stats.emitted, stats.acked, stats.failed, stats.pending) == (2, 1, {"failed": 1}, 0)

    def test_an_exception_fails_the_message_with_its_text(self, world: World) -> None:
        def broken(tuple_: Tuple, _collector: OutputCollector) -> None:
            raise KeyError(tuple_["word"])

        builder = world.builder()
        messages, _ = alone(builder, broken)
        messages.say("a")
        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.failed, "the message failed")
        assert messages.failed == [(0, "a", Failure(FailReason.FAILED, "KeyError: 'a'"))]

    def test_what_nobody_acks_times_out(self, world: World) -> None:
        builder = world.builder(message_timeout=1, tick=0.2)
        messages, executed = alone(builder, Hold("dropped"))
        messages.say("dropped")
        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.failed, "it timed out")
            assert executed.words == ["dropped"]
            messages.say("release")
            running.eventually(lambda: messages.acked, "the late ack heard, and nothing made of it")
            running.let_pass(0.3)
        assert messages.failed == [(0, "dropped", Failure(FailReason.TIMEOUT))]
        assert messages.acked_ids == ["release"]

    def test_resetting_the_timeout_keeps_a_tree_alive(self, world: World) -> None:
        hold = Hold("kept", "dropped")

        def keep(tuple_: Tuple, collector: OutputCollector) -> None:
            for held in hold.held:
                if held["word"] == "kept":
                    collector.reset_timeout(held)
            hold(tuple_, collector)

        builder = world.builder(message_timeout=4, tick=0.2)
        messages, _ = alone(builder, keep)
        messages.say("kept")
        messages.say("dropped")

        def dropped_failed() -> list[Any]:
            messages.say("more", message_id=None)
            return messages.failed

        with world.run(builder.build()) as running:
            running.eventually(dropped_failed, "the other one failed")
            messages.say("release")
            running.eventually(lambda: len(messages.acked) == 2, "the kept one acked")
        assert messages.failed == [(0, "dropped", Failure(FailReason.TIMEOUT))]
        assert sorted(messages.acked_ids) == ["kept", "release"]

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

    def test_a_dead_letter_fails_its_trees(self, world: World) -> None:
        builder = world.builder()
        messages, _, two = line(builder, pass_on, Hold("held"))
        messages.say("held")
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: two.words, "it held")
            (record,) = running.records(tuples_topic(topology.name, "two"))
            (root,) = unpack_anchors(record.header["anchors"])
            headers = [("anchors", pack_anchors({root: 1})), ("source", b"nobody/default")]
            running.append(tuples_topic(topology.name, "one"), 0, record.value or b"", headers)
            running.eventually(lambda: messages.failed, "it failed")
        ((_, message_id, failure),) = messages.failed
        assert (message_id, failure.reason) == ("held", FailReason.FAILED)
        assert failure.message.startswith("one: dead letter, ")

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

    def test_no_more_than_max_spout_pending_are_open(self, world: World) -> None:
        builder = world.builder(max_spout_pending=3)
        messages, executed = alone(builder, Hold(*"abcdefgh"))
        for word in "abcdefgh":
            messages.say(word)
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: len(executed.seen) == 3, "as many as may be open")
            running.let_pass(0.5)
            assert executed.words == ["a", "b", "c"]
            assert running.stats("says").pending == 3
            release = CODEC.encode(("release", 0))

            def released() -> bool:
                running.append(tuples_topic(topology.name, "does"), 0, release, [("source", b"says/default")])
                return len(messages.acked) == 8

            running.eventually(released, "every message acked")
        assert [word for word in executed.words if word != "release"] == [*"abcdefgh"]

    def test_a_tuple_anchored_to_several_inputs_is_in_all_their_trees(self, world: World) -> None:
        inputs: list[Tuple] = []

        def pair(tuple_: Tuple, collector: OutputCollector) -> None:
            inputs.append(tuple_)
            if len(inputs) == 2:
                collector.emit(("pair", 0), [*inputs, inputs[0]])
                for each in inputs:
                    collector.ack(each)
                inputs.clear()
            elif tuple_["word"] == "release":
                pass_on(tuple_, collector)
                inputs.clear()

        builder = world.builder()
        messages, _, two = line(builder, pair, Hold("pair"))
        messages.say("a")
        messages.say("b")
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: two.words == ["pair"], "the pair held")
            running.let_pass(0.3)
            assert not messages.acked
            (record,) = running.records(tuples_topic(topology.name, "two"))
            roots = {
                root
                for one_record in running.records(tuples_topic(topology.name, "one"))
                for root in unpack_anchors(one_record.header["anchors"])
            }
            assert unpack_anchors(record.header["anchors"]).keys() == roots
            assert len(roots) == 2
            messages.say("release")
            running.eventually(lambda: len(messages.acked) == 3, "both acked")
        assert sorted(messages.acked_ids) == ["a", "b", "release"]

    def test_a_failed_tuple_of_several_trees_fails_them_all(self, world: World) -> None:
        inputs: list[Tuple] = []

        def pair(tuple_: Tuple, collector: OutputCollector) -> None:
            inputs.append(tuple_)
            if len(inputs) == 2:
                collector.emit(("pair", 0), inputs)
                for each in inputs:
                    collector.ack(each)

        def refuse(tuple_: Tuple, collector: OutputCollector) -> None:
            collector.fail(tuple_, "no pairs here")

        builder = world.builder()
        messages, *_ = line(builder, pair, refuse)
        messages.say("a")
        messages.say("b")
        with world.run(builder.build()) as running:
            running.eventually(lambda: len(messages.failed) == 2, "both failed")
        why = Failure(FailReason.FAILED, "no pairs here")
        assert sorted(messages.failed, key=lambda one: str(one[1])) == [(0, "a", why), (0, "b", why)]
        assert not messages.acked

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

    def test_a_tuple_that_cannot_be_delivered_fails_its_tree(self, world: World) -> None:
        def blow_up(tuple_: Tuple, collector: OutputCollector) -> None:
            collector.emit(("x" * 2_000_000, 0), tuple_)
            collector.ack(tuple_)

        builder = world.builder()
        messages, *_ = line(builder, blow_up)
        messages.say("a")
        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.failed, "the message failed")
            assert running.stats("one").undelivered == 1
        ((_, message_id, failure),) = messages.failed
        assert (message_id, failure.reason) == ("a", FailReason.FAILED)
        assert failure.message.startswith("a tuple of one was not delivered: ")

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

    def test_ackers_that_are_killed_change_no_outcome(self, world: World) -> None:
        def execute(tuple_: Tuple, collector: OutputCollector) -> None:
            if tuple_["word"] == "failed":
                collector.fail(tuple_, "as told")
            else:
                hold(tuple_, collector)

        hold = Hold("held", "dropped")
        builder = world.builder(message_timeout=10, tick=0.5)
        messages, _, two = line(builder, pass_on, execute)
        for word in ("acked", "failed", "held", "dropped"):
            messages.say(word)
        with world.run(builder.build(), acker_dies=True) as running:
            running.eventually(lambda: messages.acked and messages.failed and "dropped" in two.words, "two outcomes")
            running.let_pass(1.2)  # so that there is a commit
            running.kill_acker()
            hold.held.pop()
            messages.say("release")
            messages.say("failed", message_id="failed again")
            running.eventually(lambda: len(messages.acked) == 3 and len(messages.failed) == 3, "the other outcomes")
        assert sorted(messages.acked_ids) == ["acked", "held", "release"]
        as_told = Failure(FailReason.FAILED, "as told")
        assert [(message_id, failure) for _, message_id, failure in messages.failed] == [
            ("failed", as_told),
            ("failed again", as_told),
            ("dropped", Failure(FailReason.TIMEOUT)),
        ]
