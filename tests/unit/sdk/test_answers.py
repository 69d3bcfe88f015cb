"""Answers of bolts: written to the partition of their tree, before the outcome of the message that they answer."""

import json
from typing import Any, ClassVar

import pytest

from spout_sdk import BasicBolt, FailTupleError, KafkaSpout, RetryPolicy, TopologyBuilder, declare
from spout_sdk.arrow import ArrowBolt
from spout_sdk.client.records import RecordReader
from spout_sdk.client.target import Target
from spout_sdk.errors import TopicsError, TopologyError
from spout_sdk.testing import MemoryRecord, SimulatedCluster, SimulationError
from tests.components import ByHand, Sink, source
from tests.unit.sdk.bench import Bench
from tuple_tree.answer_records import kind_header, kind_of, root_of_key
from tuple_tree.manifest import Guarantee, Manifest
from tuple_tree.outcome_records import outcome_headers

GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])


class Upper(BasicBolt):
    answers = True

    def execute(self, tuple_: Any, collector: Any) -> None:
        collector.answer(tuple_["value"].upper())


class UpperLater(ByHand):
    answers = True

    def execute(self, tuple_: Any) -> None:
        self.collector.answer(tuple_, tuple_["value"].upper())


class FailsOnce(BasicBolt):
    """Fails each message once, after the other bolt has answered it."""

    seen: ClassVar[set[str]] = set()

    def execute(self, tuple_: Any, collector: Any) -> None:
        if tuple_["value"] not in self.seen:
            self.seen.add(tuple_["value"])
            raise ValueError("not yet")


def cluster_of(
    *bolts: Any,
    guarantee: Guarantee = "at_least_once",
    grouping: str = "shuffle",
    topics: str | list[str] = "orders",
    ack_partitions: int = 4,
    max_retries: int | None = None,
    delay: float = 0.0,
    translate: Any = None,
    **options: Any,
) -> SimulatedCluster:
    """A spout `orders`, and these bolts behind it, with the names `bolt`, `bolt-1` and so on."""
    builder = TopologyBuilder("t", guarantee=guarantee, ack_partitions=ack_partitions)
    retry = RetryPolicy(initial_delay=delay, delay_period=delay, max_delay=delay, max_retries=max_retries)
    builder.set_spout("orders", KafkaSpout(topics, retry=retry, translate=translate), **options)
    for number, bolt in enumerate(bolts):
        declarer = builder.set_bolt(f"bolt-{number}" if number else "bolt", bolt)
        getattr(declarer, f"{grouping}_grouping")("orders", *(["value"] if grouping == "fields" else []))
    return SimulatedCluster(builder.build())


def test_the_outcome_of_a_replayed_message_is_behind_the_answer_of_the_tree_that_was_acked() -> None:
    FailsOnce.seen.clear()
    with cluster_of(Upper, FailsOnce, ack_partitions=1) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until_idle()
        records = cluster.records("t.answers")
        kinds = [kind_of(dict(each.headers() or ())) for each in records]
        assert kinds == ["answer", "answer", "outcome"]
        first, second, ended = (root_of_key(each.key()) for each in records)
        assert first != second == ended


class AnswersSome(BasicBolt):
    """Answers a message in some attempts, with their numbers."""

    answers = True
    attempts: ClassVar[list[int]] = []

    def prepare(self, context: Any) -> None:
        self.seen = 0

    def execute(self, tuple_: Any, collector: Any) -> None:
        self.seen += 1
        if self.seen in self.attempts:
            collector.answer(self.seen)


class FailsOften(BasicBolt):
    """Fails 16 attempts."""

    def prepare(self, context: Any) -> None:
        self.left = 16

    def execute(self, tuple_: Any, collector: Any) -> None:
        self.left -= 1
        if self.left >= 0:
            raise FailTupleError("not yet")


@GUARANTEES
@pytest.mark.parametrize(("attempts", "answer"), [([2], None), ([2, 17], 17)])
def test_an_answer_of_an_attempt_whose_root_a_later_one_has_again_does_not_count(
    attempts: list[int], answer: int | None, guarantee: Guarantee
) -> None:
    AnswersSome.attempts = attempts
    with cluster_of(AnswersSome, FailsOften, guarantee=guarantee, ack_partitions=1, delay=4.0) as cluster:
        cluster.produce("orders", "a")
        cluster.advance(80.0)
        answers = [each for each in cluster.records("t.answers") if kind_of(dict(each.headers() or ())) == "answer"]
        assert len({each.key() for each in answers}) == 1, "the same root"
        assert (found := cluster.message_outcome("orders", 0)) is not None
        assert (found.attempts, found.answer) == (17, answer)


@GUARANTEES
def test_a_kill_before_an_attempt_with_the_root_of_an_earlier_one_loses_no_answer(guarantee: Guarantee) -> None:
    AnswersSome.attempts = [2, 17]
    with cluster_of(AnswersSome, FailsOften, guarantee=guarantee, ack_partitions=1, delay=4.0) as cluster:
        cluster.produce("orders", "a")
        while not any(kind_of(dict(each.headers() or ())) == "attempt" for each in cluster.records("t.answers")):
            cluster.advance(0.1)
        cluster.kill("orders")
        cluster.advance(40.0)
        assert len({each.key() for each in cluster.records("t.answers")}) == 2, "the next owner has another root"
        assert (found := cluster.message_outcome("orders", 0)) is not None
        assert (found.outcome, found.answer) == ("acked", 17)


def test_a_message_that_ends_without_a_tree_has_an_outcome_without_a_root() -> None:
    with cluster_of(Upper, translate=lambda _record: None) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until_idle()
        (ended,) = cluster.records("t.answers")
        assert (kind_of(dict(ended.headers() or ())), root_of_key(ended.key())) == ("outcome", None)
        assert json.loads(ended.value() or b"")["outcome"] == "skipped"
        assert (found := cluster.message_outcome("orders", 0)) is not None
        assert (found.outcome, found.answer) == ("skipped", None)


@pytest.mark.parametrize("codec", ["json", "avro"])
def test_without_a_bolt_that_answers_a_client_reads_the_topic_of_outcomes(codec: Any) -> None:
    FailsOnce.seen = {"good"}
    done: Any = {"outcomes": "done", "outcomes_codec": codec}
    with cluster_of(FailsOnce, topics=["others", "orders"], max_retries=0, **done) as cluster:
        for topic, value in (("others", "good"), ("orders", "good"), ("orders", "bad")):
            cluster.produce(topic, value)
        cluster.run_until_idle()
        good, bad = (cluster.message_outcome("orders", offset) for offset in range(2))
        assert good is not None
        assert (good.topic, good.outcome, good.answer) == ("orders", "acked", None)
        assert bad is not None
        assert (bad.outcome, bad.reason, bad.component) == ("dead-letter", "retries-exhausted", "bolt")
        assert cluster.message_outcome("orders", 2) is None
        with pytest.raises(SimulationError):
            cluster.message_outcome("nowhere", 0)


@pytest.mark.parametrize("bolt", [Upper, UpperLater])
def test_a_tuple_is_acked_when_its_answer_is_delivered(bolt: type[Any]) -> None:
    bench = Bench(cluster_of(bolt).topology, holds_back=True)
    task = bench.bolt("bolt")
    bench.record("bolt", ("a",), {7: 8}, source="orders/default")
    task.flush()
    (answer,) = bench.sink.to("t.answers")
    assert answer.value == b'"A"'
    assert bench.sink.checksums() == {}
    answer.deliver()
    task.flush()
    assert bench.sink.checksums() == {7: 8}


class Silent(Upper):
    answers = False


class Odd(Upper):
    def execute(self, tuple_: Any, collector: Any) -> None:
        collector.answer(b"bytes")


@pytest.mark.parametrize(
    ("bolt", "why"),
    [(Silent, "set answers = True in its class"), (Odd, "bytes")],
    ids=["it does not declare that it answers", "not JSON"],
)
def test_an_answer_that_cannot_be_sent_fails_the_tuple(bolt: type[Any], why: str) -> None:
    with cluster_of(bolt) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until(lambda: cluster.failed("bolt"))
        ((_, failure),) = cluster.failed("bolt")[:1]
        assert why in failure.message
        assert not cluster.records("t.answers")


def test_only_bolts_that_can_be_waited_for_may_answer() -> None:
    class Columns(ArrowBolt):
        answers = True

        def execute_batch(self, batch: Any, collector: Any) -> None:
            collector.ack()

    def built(bolt: Any, spout: Any = None, guarantee: Guarantee = "at_least_once") -> Manifest:
        builder = TopologyBuilder("t", guarantee=guarantee)
        builder.set_spout("orders", spout or KafkaSpout("orders"))
        builder.set_bolt("answering", bolt).shuffle_grouping("orders")
        return builder.build().manifest

    manifest = built(Upper)
    assert [spout.name for spout in manifest.answered_spouts] == ["orders"]
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert b"answers" not in built(Sink).to_json()
    with pytest.raises(TopologyError, match=r"no answer\(\)"):
        built(Columns)
    with pytest.raises(TopologyError, match="follows no trees"):
        built(Upper, guarantee="at_most_once")
    with pytest.raises(TopologyError, match="receives nothing from a KafkaSpout"):
        built(Upper, source(declare({"value": str})))


def test_a_source_topic_that_was_created_again_ends_the_client() -> None:
    with cluster_of(Upper) as cluster:
        cluster.produce("orders", "a")
        cluster.run_until_idle()
        earlier = Target.of(cluster.topology.manifest, "orders", "orders", "the id of an earlier topic", {})
        with pytest.raises(TopicsError, match="created again"):
            RecordReader(earlier).decode(cluster.records("t.answers"))


def test_records_that_are_no_outcomes_are_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with cluster_of(Upper) as cluster:
        target = Target.of(cluster.topology.manifest, "orders", "orders", "orders", {})
        outcome = (kind_header("outcome"), *outcome_headers("t", "orders"))
        records = [
            MemoryRecord("t.answers", 0, 0, b"{", [*outcome]),
            MemoryRecord("t.answers", 0, 1, None, [*outcome]),
            MemoryRecord("t.answers", 0, 2, b"{}", [("kind", b"else")]),
            MemoryRecord("t.answers", 0, 3, b"{}", None),
            MemoryRecord("t.answers", 0, 4, b"{}", [kind_header("answer")], b"no root"),
        ]
        assert RecordReader(target).decode(records) == []
        assert "t.answers[0] offset 0 is not an outcome, and is skipped" in caplog.text
