"""What becomes of messages, and when their spout hears of it."""

from typing import Any

from spout_sdk import FailReason, FailTupleError, Failure, OutputCollector, Tuple
from tests.contract.components import CODEC, Hold, alone, line, pass_on
from tests.contract.world import World
from tuple_tree.anchors import pack_anchors, unpack_anchors
from tuple_tree.names import tuples_topic


class Outcomes:
    """The part of the contract that looks at spouts and bolts."""

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
        builder = world.builder(message_timeout=5, tick=0.2)
        messages, executed = alone(builder, Hold("dropped"))
        messages.say("first")
        with world.run(builder.build()) as running:
            # The time-out is for what nobody acks, and not for a topology that takes its time to begin.
            running.eventually(lambda: messages.acked, "everybody at work")
            messages.say("dropped")
            running.eventually(lambda: messages.failed, "it timed out")
            assert executed.words == ["first", "dropped"]
            messages.say("release")
            running.eventually(lambda: len(messages.acked) == 2, "the late ack heard, and nothing made of it")
            running.let_pass(0.3)
        assert messages.failed == [(0, "dropped", Failure(FailReason.TIMEOUT))]
        assert messages.acked_ids == ["first", "release"]

    def test_resetting_the_timeout_keeps_a_tree_alive(self, world: World) -> None:
        hold = Hold("kept", "dropped")

        def keep(tuple_: Tuple, collector: OutputCollector) -> None:
            for held in hold.held:
                if held["word"] == "kept":
                    collector.reset_timeout(held)
            hold(tuple_, collector)

        # So long that a loaded machine does not stand still for it between two resets.
        builder = world.builder(message_timeout=12, tick=0.2)
        messages, _ = alone(builder, keep)
        messages.say("first")

        def dropped_failed() -> list[Any]:
            messages.say("more", message_id=None)
            return messages.failed

        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.acked, "everybody at work")
            messages.say("kept")
            messages.say("dropped")
            running.eventually(dropped_failed, "the other one failed")
            messages.say("release")
            running.eventually(lambda: len(messages.acked) == 3, "the kept one acked")
        assert messages.failed == [(0, "dropped", Failure(FailReason.TIMEOUT))]
        assert sorted(messages.acked_ids) == ["first", "kept", "release"]

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

    def test_ackers_that_are_killed_change_no_outcome(self, world: World) -> None:
        def execute(tuple_: Tuple, collector: OutputCollector) -> None:
            if tuple_["word"] == "failed":
                collector.fail(tuple_, "as told")
            else:
                hold(tuple_, collector)

        hold = Hold("held", "dropped")
        builder = world.builder(message_timeout=10, tick=0.5)
        messages, _, two = line(builder, pass_on, execute)
        messages.say("acked")
        with world.run(builder.build(), acker_dies=True) as running:
            # The time-out is for what nobody acks, and not for an acker that takes its time to begin.
            running.eventually(lambda: messages.acked, "an acker at work")
            for word in ("failed", "held", "dropped"):
                messages.say(word)
            running.eventually(lambda: messages.failed and "dropped" in two.words, "two outcomes")
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
