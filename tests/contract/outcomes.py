"""The outcomes of messages, and when their spout gets them."""

from functools import partial
from itertools import count, islice
from typing import Any

import numpy as np

from spout_sdk import FailReason, FailTupleError, Failure, OutputCollector, Tuple
from tests.contract.components import (
    Executed,
    FunctionBolt,
    Hold,
    Messages,
    MessageSpout,
    OddFirst,
    ack,
    alone,
    line,
    packed,
    pass_on,
    tuples_in,
)
from tests.contract.world import World
from tuple_tree.messages import AckBatch, SpoutAddress, decode_notice_batch, encode_ack_batch
from tuple_tree.names import acks_topic, dead_letters_topic, notices_topic, tuples_topic


class Outcomes:
    """The part of the contract about spouts and bolts."""

    def test_a_message_is_acked_after_its_whole_tree(self, world: World) -> None:
        # With one ack partition a wrong ack of the first message would come before that of the second one.
        builder = world.builder(ack_partitions=1)
        messages, _, two = line(builder, pass_on, Hold("held"))
        messages.add("held")
        messages.add("free")
        with world.run(builder.build()) as running:
            running.eventually(lambda: "free" in messages.acked_ids and "held" in two.words, "one held, one acked")
            assert messages.acked_ids == ["free"]
            messages.add("release")
            running.eventually(lambda: len(messages.acked) == 3, "all acked")
            assert running.stats("spout").pending == 0
        assert not messages.failed

    def test_a_failed_message_has_its_reason_and_its_replay_is_a_new_tree(self, world: World) -> None:
        attempts: list[int] = []

        def succeeds_at_third_attempt(tuple_: Tuple, collector: OutputCollector) -> None:
            attempts.append(*tuple_.roots)
            if len(attempts) == 1:
                raise FailTupleError("not yet")
            if len(attempts) == 2:
                raise KeyError(tuple_["word"])
            collector.ack(tuple_)

        builder = world.builder()
        messages, *_ = line(builder, pass_on, succeeds_at_third_attempt)
        messages.replays = True
        messages.add("again")
        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.acked, "the second replay acked")
            stats = running.stats("spout")
        reasons = [Failure(FailReason.FAILED, text, "two") for text in ("not yet", "KeyError: 'again'")]
        assert messages.failed == [(0, "again", reason) for reason in reasons]
        assert messages.acked == [(0, "again")]
        assert len(set(attempts)) == 3
        assert (stats.emitted, stats.acked, stats.failed, stats.pending) == (3, 1, {"failed": 2}, 0)

    def test_unacked_tuples_time_out(self, world: World) -> None:
        builder = world.builder(message_timeout=3, tick=0.2, ack_partitions=1)
        messages, executed = alone(builder, Hold("dropped"))
        messages.add("first", message_id=None)
        with world.run(builder.build()) as running:
            # The time-out is not for a bolt that has not started yet.
            running.eventually(lambda: executed.words, "the bolt at work")
            messages.add("dropped")
            running.eventually(lambda: messages.failed, "it timed out")
            messages.add("release")
            running.eventually(lambda: messages.acked, "the late ack, which changes nothing, and the one after it")
        assert messages.failed == [(0, "dropped", Failure(FailReason.TIMEOUT))]
        assert messages.acked_ids == ["release"]

    def test_rows_of_an_arrow_bolt_have_outcomes_of_their_own(self, world: World) -> None:
        messages, executed = Messages(), Executed(ack)
        messages.replays = True
        builder = world.builder(ack_partitions=2)
        builder.set_spout("spout", partial(MessageSpout, messages))
        builder.set_bolt("columns", OddFirst, tasks=2).shuffle_grouping("spout")
        builder.set_bolt("bolt", partial(FunctionBolt, executed), tasks=2).fields_grouping("columns", "word")
        for number in range(40):
            messages.add(f"w{number % 7}", number, message_id=number)
        with world.run(builder.build()) as running:
            running.eventually(lambda: len(messages.acked) == 40, "every message acked")
            running.eventually(lambda: running.has_committed_all("columns"), "everything committed")
        assert sorted(messages.acked_ids) == list(range(40))
        assert {failure for _, _, failure in messages.failed} == {
            Failure(FailReason.FAILED, "even ones later", "columns")
        }
        assert {number for _, number, _ in messages.failed} <= set(range(0, 40, 2))
        assert {number for _, _, number in executed.seen} == {*range(40), *range(1_000, 1_040)}
        by_word = {(word, task) for task, word, _ in executed.seen}
        assert len(by_word) == 7

    def test_several_anchors_put_a_tuple_into_all_their_trees(self, world: World) -> None:
        inputs: list[Tuple] = []

        def pair(tuple_: Tuple, collector: OutputCollector) -> None:
            inputs.append(tuple_)
            if len(inputs) == 2:
                collector.emit(("pair", tuple_["number"]), anchors=[*inputs, inputs[0]])
                for each in inputs:
                    collector.ack(each)
                inputs.clear()

        pairs: list[tuple[Tuple, OutputCollector]] = []

        def hold(tuple_: Tuple, collector: OutputCollector) -> None:
            pairs.append((tuple_, collector))
            if tuple_["number"] == 1:
                collector.fail(tuple_, "not this pair")
            elif tuple_["number"] == 2:
                for each in (pairs[0][0], tuple_):
                    collector.ack(each)

        builder = world.builder(ack_partitions=1)
        messages, *_ = line(builder, pair, hold)
        for number, word in enumerate("abcd"):
            messages.add(word, number // 2)
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: len(messages.failed) == 2, "both trees of the second pair failed")
            assert not messages.acked
            (_, edges), _ = tuples_in(running.records(tuples_topic(topology.name, "two")))
            inputs_of_first = tuples_in(running.records(tuples_topic(topology.name, "one")))[:2]
            roots = {root for _, each in inputs_of_first for root in each}
            assert edges.keys() == roots
            assert len(roots) == 2
            messages.add("e", 2)
            messages.add("f", 2)
            running.eventually(lambda: len(messages.acked) == 4, "the trees of the other pairs acked")
        reason = Failure(FailReason.FAILED, "not this pair", "two")
        assert sorted(messages.failed, key=lambda failed: str(failed[1])) == [(0, "c", reason), (0, "d", reason)]
        assert sorted(messages.acked_ids) == ["a", "b", "e", "f"]

    def test_a_tuple_that_cannot_be_delivered_fails_its_tree(self, world: World) -> None:
        def blow_up(tuple_: Tuple, collector: OutputCollector) -> None:
            collector.emit(("x" * 2_000_000, 0), anchors=tuple_)
            collector.ack(tuple_)

        builder = world.builder()
        messages, *_ = line(builder, blow_up)
        messages.add("a")
        with world.run(builder.build()) as running:
            running.eventually(lambda: messages.failed, "the message failed")
            assert running.stats("one").undelivered == 1
        ((_, message_id, failure),) = messages.failed
        assert (message_id, failure.reason) == ("a", FailReason.FAILED)
        assert failure.message.startswith("a tuple of one was not delivered: ")

    def test_outcomes_reach_the_task_that_emitted(self, world: World) -> None:
        messages, builder = Messages(), world.builder(ack_partitions=2)
        builder.set_spout("spout", partial(MessageSpout, messages), tasks=3)
        builder.set_bolt("bolt", partial(FunctionBolt, Executed(ack)), tasks=2).shuffle_grouping("spout")
        with world.run(builder.build()) as running:
            words = map(str, count())

            def all_have_emitted() -> bool:
                for word in islice(words, 30):
                    messages.add(word)
                return {*messages.emitted_by.values()} == {0, 1, 2}

            running.eventually(all_have_emitted, "messages of three tasks")
            running.eventually(
                lambda: not messages.waiting and len(messages.acked) == len(messages.emitted_by), "every message acked"
            )
            assert running.stats("spout").ignored_notices == 0
        assert sorted(messages.acked) == sorted((task, word) for word, task in messages.emitted_by.items())


class SlowOutcomes:
    """Promises whose tests need real time."""

    def test_no_more_than_max_spout_pending_are_open(self, world: World) -> None:
        builder = world.builder(max_spout_pending=3)
        messages, executed = alone(builder, Hold(*"abcdefgh"))
        for word in "abcdefgh":
            messages.add(word)
        topology = builder.build()
        with world.run(topology) as running:
            running.eventually(lambda: len(executed.seen) == 3, "as many as may be open")
            running.let_pass(0.1)
            assert executed.words == ["a", "b", "c"]
            assert running.stats("spout").pending == 3
            release = packed(("release", 0))

            def released() -> bool:
                running.append(tuples_topic(topology.name, "bolt"), 0, release, [("source", b"spout/default")])
                return len(messages.acked) == 8

            running.eventually(released, "every message acked")
        assert [word for word in executed.words if word != "release"] == [*"abcdefgh"]

    def test_resetting_the_timeout_keeps_a_tree_alive(self, world: World) -> None:
        hold = Hold("kept", "dropped")

        def keep(tuple_: Tuple, collector: OutputCollector) -> None:
            for held in hold.held:
                if held["word"] == "kept":
                    collector.reset_timeout(held)
            hold(tuple_, collector)

        # So long that a busy machine does not need it between two resets.
        builder = world.builder(message_timeout=12, tick=0.2)
        messages, executed = alone(builder, keep)
        messages.add("first", message_id=None)

        def dropped_failed() -> list[Any]:
            messages.add("more", message_id=None)
            return messages.failed

        with world.run(builder.build()) as running:
            running.eventually(lambda: executed.words, "the bolt at work")
            messages.add("kept")
            messages.add("dropped")
            running.eventually(dropped_failed, "the other one failed")
            messages.add("release")
            running.eventually(lambda: len(messages.acked) == 2, "the kept one acked")
        assert messages.failed == [(0, "dropped", Failure(FailReason.TIMEOUT))]
        assert sorted(messages.acked_ids) == ["kept", "release"]

    def test_what_ackers_cannot_use_or_deliver_is_a_dead_letter(self, world: World) -> None:
        builder = world.builder(ack_partitions=2)
        line(builder, pass_on)
        topology = builder.build()
        acks, missing = acks_topic(topology.name), SpoutAddress(notices_topic(topology.name, "spout"), 7, 1_000)
        root, val = np.array([3], np.uint64), np.array([0], np.uint64)
        batch = AckBatch("writer/0", bytes(16), 0, spout=missing, init_roots=root, init_vals=val)
        with world.run(topology) as running:
            running.append(acks, 1, b"junk", [])
            running.append(acks, 1, encode_ack_batch(batch), [])
            junk, outcome = running.eventually(
                lambda: found if len(found := running.records(dead_letters_topic(topology.name))) == 2 else [], "both"
            )
            (original,) = (each for each in running.records(acks) if each.value == junk.value)
        at = {"topic": acks.encode(), "partition": b"1", "by": b"acker"}
        of_junk = {**at, "offset": str(original.offset).encode(), "reason": b"not-avro"}
        for letter, shown in ((junk, of_junk), (outcome, {**at, "reason": b"unknown-spout"})):
            assert {f"dead-letter.{name}": text for name, text in shown.items()}.items() <= letter.header.items()
        assert (junk.value, decode_notice_batch(outcome.value or b"").acked_roots.tolist()) == (b"junk", [3])
