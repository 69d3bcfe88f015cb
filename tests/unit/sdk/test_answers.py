"""Answers of bolts: written to the partition of their tree, before the outcome of the message that they answer."""

import json
from typing import Any, ClassVar

import pytest

from spout_sdk import (
    ArrowBolt,
    AsyncBolt,
    BasicBolt,
    BatchBolt,
    Bolt,
    KafkaSpout,
    RetryPolicy,
    StatefulBolt,
    TopicsError,
    TopologyBuilder,
    TopologyError,
    declare,
)
from spout_sdk.client.records import RecordReader
from spout_sdk.client.target import Target
from spout_sdk.testing import MemoryRecord, SimulatedCluster, SimulationError
from tests.components import Sink
from tests.unit.sdk.memory import Bench, execute
from tuple_tree.answers import kind_header, kind_of, root_of_key, spout_header
from tuple_tree.manifest import Guarantee, Manifest

AT_ONCE = RetryPolicy(initial_delay=0, delay_period=0)


class Upper(BasicBolt):
    answers = True

    def execute(self, tuple_: Any, collector: Any) -> None:
        collector.answer(tuple_["value"].upper())


class UpperLater(Bolt):
    answers = True

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tuple_: Any) -> None:
        self.collector.answer(tuple_, tuple_["value"].upper())


class UpperTogether(BatchBolt):
    answers = True

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute_batch(self, tuples: Any) -> None:
        for tuple_ in tuples:
            self.collector.answer(tuple_, tuple_["value"].upper())


class UpperSoon(AsyncBolt):
    answers = True

    async def execute_async(self, tuple_: Any, collector: Any) -> None:
        collector.answer(tuple_["value"].upper())


class UpperOnce(StatefulBolt):
    answers = True
    state = int

    def update(self, value: int, tuple_: Any) -> int:
        return value + 1

    def emit(self, key: str, value: int, tuple_: Any, collector: Any) -> None:
        collector.answer(key.upper())


class FailsOnce(BasicBolt):
    """Fails each message once, after the other bolt has answered it."""

    seen: ClassVar[set[str]] = set()

    def execute(self, tuple_: Any, collector: Any) -> None:
        if tuple_["value"] not in self.seen:
            self.seen.add(tuple_["value"])
            raise ValueError("not yet")


def cluster_of(
    bolt: type[Any], guarantee: Guarantee = "at_least_once", *, is_chained: bool = False
) -> SimulatedCluster:
    builder = TopologyBuilder("t", guarantee=guarantee, ack_partitions=4)
    builder.set_spout("orders", KafkaSpout("orders", retry=AT_ONCE))
    declarer = builder.set_bolt("answering", bolt)
    if is_chained:
        declarer.local_grouping("orders")
    elif bolt is UpperOnce:
        declarer.fields_grouping("orders", "value")
    else:
        declarer.shuffle_grouping("orders")
    return SimulatedCluster(builder.build())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("bolt", [Upper, UpperLater, UpperTogether, UpperSoon, UpperOnce])
def test_each_kind_of_bolt_answers_a_message_before_its_outcome(bolt: type[Any], guarantee: Guarantee) -> None:
    _each_answer_precedes_its_outcome(cluster_of(bolt, guarantee))


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_chained_bolt_answers_a_message_before_its_outcome(guarantee: Guarantee) -> None:
    _each_answer_precedes_its_outcome(cluster_of(Upper, guarantee, is_chained=True))


def _each_answer_precedes_its_outcome(cluster: SimulatedCluster) -> None:
    with cluster:
        for number in range(10):
            cluster.produce("orders", f"order {number}")
        cluster.run_until_idle()
        written: dict[int | None, list[Any]] = {}
        for read in cluster.records("t.answers"):
            root = root_of_key(read.key())
            assert root is not None
            assert read.partition() == root % 4
            written.setdefault(root, []).append((kind_of(dict(read.headers() or ())), json.loads(read.value() or b"")))
        assert len(written) == 10
        for (answered, answer), (ended, outcome) in written.values():
            assert (answered, ended, outcome["outcome"]) == ("answer", "outcome", "acked")
            assert answer == f"ORDER {outcome['offset']}"
            found = cluster.message_outcome("orders", outcome["offset"])
            assert found is not None
            assert found.answer == answer


def test_the_outcome_of_a_replayed_message_is_behind_the_answer_of_the_tree_that_was_acked() -> None:
    FailsOnce.seen.clear()
    builder = TopologyBuilder("t", ack_partitions=1)
    builder.set_spout("orders", KafkaSpout("orders", retry=AT_ONCE))
    builder.set_bolt("answering", Upper).shuffle_grouping("orders")
    builder.set_bolt("failing", FailsOnce).shuffle_grouping("orders")
    with SimulatedCluster(builder.build()) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until_idle()
        records = cluster.records("t.answers")
        kinds = [kind_of(dict(each.headers() or ())) for each in records]
        assert kinds == ["answer", "answer", "outcome"]
        first, second, ended = (root_of_key(each.key()) for each in records)
        assert first != second == ended


def test_a_message_that_ends_without_a_tree_has_an_outcome_without_a_root() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", KafkaSpout("orders", translate=lambda _record: None))
    builder.set_bolt("answering", Upper).shuffle_grouping("orders")
    with SimulatedCluster(builder.build()) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until_idle()
        (ended,) = cluster.records("t.answers")
        assert (kind_of(dict(ended.headers() or ())), root_of_key(ended.key())) == ("outcome", None)
        assert json.loads(ended.value() or b"")["outcome"] == "skipped"
        assert (found := cluster.message_outcome("orders", 0)) is not None
        assert (found.outcome, found.answer) == ("skipped", None)


@pytest.mark.parametrize("codec", ["json", "avro"])
def test_without_a_bolt_that_answers_a_client_reads_the_topic_of_outcomes(codec: Any) -> None:
    builder = TopologyBuilder("t")
    retry = RetryPolicy(initial_delay=0, delay_period=0, max_retries=0)
    builder.set_spout("orders", KafkaSpout(["others", "orders"], retry=retry), outcomes="done", outcomes_codec=codec)
    builder.set_bolt("failing", FailsOnce).shuffle_grouping("orders")
    FailsOnce.seen = {"good"}
    with SimulatedCluster(builder.build()) as cluster:
        cluster.produce("others", "good")
        cluster.produce("orders", "good")
        cluster.produce("orders", "bad")
        cluster.run_until_idle()
        good, bad = (cluster.message_outcome("orders", offset) for offset in range(2))
        assert good is not None
        assert (good.topic, good.outcome, good.answer) == ("orders", "acked", None)
        assert bad is not None
        assert (bad.outcome, bad.reason, bad.component) == ("dead-letter", "retries-exhausted", "failing")
        assert cluster.message_outcome("orders", 2) is None
        with pytest.raises(SimulationError):
            cluster.message_outcome("nowhere", 0)


def answering_bench(bolt: type[Any], **more: Any) -> Bench:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", KafkaSpout("orders"))
    builder.set_bolt("see", bolt).shuffle_grouping("orders")
    return Bench(builder.build(), **more)


@pytest.mark.parametrize("bolt", [Upper, UpperLater])
def test_a_tuple_is_acked_when_its_answer_is_delivered(bolt: type[Any]) -> None:
    bench = answering_bench(bolt, holds_back=True)
    task = bench.bolt("see")
    execute(task, bench.record("see", ("a",), {7: 8}, source="orders/default"))
    task.flush()
    (answer,) = bench.sink.to("t.answers")
    assert answer.value == b'"A"'
    assert bench.sink.checksums() == {}
    answer.deliver()
    task.flush()
    assert bench.sink.checksums() == {7: 8}


def test_a_bolt_that_does_not_declare_that_it_answers_fails_the_tuple() -> None:
    class Silent(Upper):
        answers = False

    with cluster_of(Silent) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until(lambda: cluster.failed("answering"))
        ((_, failure),) = cluster.failed("answering")[:1]
        assert "set answers = True in its class" in failure.message


def test_an_answer_that_is_not_json_fails_the_tuple() -> None:
    class Odd(BasicBolt):
        answers = True

        def execute(self, tuple_: Any, collector: Any) -> None:
            collector.answer(b"bytes")

    with cluster_of(Odd) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until(lambda: cluster.failed("answering"))
        assert not cluster.records("t.answers")


def test_only_bolts_that_can_be_waited_for_may_answer() -> None:
    class Columns(ArrowBolt):
        answers = True

        def execute_batch(self, batch: Any, collector: Any) -> None:
            collector.ack()

    class Numbers(Sink):
        streams = (declare({"value": str}),)

    def built(bolt: Any, spout: Any = None, guarantee: Guarantee = "at_least_once") -> Manifest:
        builder = TopologyBuilder("t", guarantee=guarantee)
        builder.set_spout("orders", spout or KafkaSpout("orders"))
        builder.set_bolt("answering", bolt).shuffle_grouping("orders")
        return builder.build().manifest

    assert [spout.name for spout in built(Upper).answered_spouts] == ["orders"]
    with pytest.raises(TopologyError, match=r"no answer\(\)"):
        built(Columns)
    with pytest.raises(TopologyError, match="follows no trees"):
        built(Upper, guarantee="at_most_once")
    with pytest.raises(TopologyError, match="receives nothing from a KafkaSpout"):
        built(Upper, KafkaSpout("orders", mode="no_guarantee"))


def test_a_manifest_without_answers_has_no_such_member() -> None:
    assert b"answers" not in cluster_of(Sink).topology.manifest.to_json()
    manifest = cluster_of(Upper).topology.manifest
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_a_source_topic_that_was_created_again_ends_the_client() -> None:
    with cluster_of(Upper) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until_idle()
        earlier = Target.of(cluster.topology.manifest, "orders", "orders", "the id of an earlier topic")
        with pytest.raises(TopicsError, match="created again"):
            RecordReader(earlier).decode(cluster.records("t.answers"))


def test_records_that_are_no_outcomes_are_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with cluster_of(Upper) as cluster:
        target = Target.of(cluster.topology.manifest, "orders", "orders", "orders")
        outcome = (kind_header("outcome"), spout_header("orders"))
        records = [
            MemoryRecord("t.answers", 0, 0, b"{", [*outcome]),
            MemoryRecord("t.answers", 0, 1, None, [*outcome]),
            MemoryRecord("t.answers", 0, 2, b"{}", [("kind", b"else")]),
            MemoryRecord("t.answers", 0, 3, b"{}", None),
            MemoryRecord("t.answers", 0, 4, b"{}", [kind_header("answer")], b"no root"),
        ]
        assert RecordReader(target).decode(records) == []
        assert "t.answers[0] offset 0 is not an outcome, and is skipped" in caplog.text
