"""Tuples that their task executes again: when, what becomes of them, and how long they may wait."""

from collections.abc import Sequence
from typing import Any

import pytest

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    KafkaSpout,
    RetryPolicy,
    RetryTupleError,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.bolts import retries
from spout_sdk.errors import TopologyError, TupleAlreadyDoneError
from spout_sdk.testing import SimulatedCluster
from tests.components import InBatches, Sink, Split, source
from tests.unit.sdk.bench import Manual

SECONDS = RetryPolicy(initial_delay=1.0, delay_period=1.0, max_delay=60.0)
WORD = (declare({"word": str}),)


class Flaky(BasicBolt):
    """Raises as often for each word as the word says, `bad3` three times; notes when it was called."""

    streams = WORD
    emits_first = False

    def prepare(self, context: TaskContext) -> None:
        self.context = context
        self.calls: list[tuple[float, str]] = []

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        word = tuple_["word"]
        self.calls.append((round(self.context.now(), 1), word))
        if sum(called == word for _, called in self.calls) <= times(word):
            if self.emits_first:
                collector.emit((f"part of {word}",))
            raise self.error(word)
        collector.emit((word,))

    def error(self, word: str) -> Exception:
        return ValueError(word)


def times(word: str) -> int:
    return int(word.removeprefix("bad")) if word.startswith("bad") else 0


def cluster(bolt: Any, *words: str, settings: dict[str, Any] | None = None, **options: Any) -> SimulatedCluster:
    builder = TopologyBuilder("retries", **settings or {})
    builder.set_spout("words", source(*WORD))
    builder.set_bolt("flaky", bolt, **{"on_exception": "retry", "retry": SECONDS, **options}).shuffle_grouping("words")
    builder.set_bolt("last", Sink).shuffle_grouping("flaky")
    sources = {"words": [(word,) for word in words]}
    return SimulatedCluster(builder.build(), sources=sources, topics={"out": 1}, step=0.5)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_tuple_is_executed_again_by_the_policy_and_others_meanwhile(guarantee: str) -> None:
    with cluster(Flaky, "bad4", "a", "b", settings={"guarantee": guarantee}) as running:
        running.run_until_idle()
        assert running.stats("flaky").retrying == 1
        assert sorted(running.acked("words")) == [1, 2]
        running.feed("words", ("c",))
        running.advance(60)
        assert running.bolt("flaky").calls == [
            *[(0.0, "bad4"), (0.0, "a"), (0.0, "b"), (0.0, "c")],
            *[(1.0, "bad4"), (3.0, "bad4"), (7.0, "bad4"), (15.0, "bad4")],
        ]
        assert (sorted(running.acked("words")), running.failed("words")) == ([0, 1, 2, 3], [])
        assert sorted(running.executed("last")) == [("a",), ("b",), ("bad4",), ("c",)]
        stats = running.stats("flaky")
        assert (stats.retried, stats.retrying, stats.errors, stats.failed) == (4, 0, 4, {})


def test_a_tuple_is_kept_alive_beyond_the_message_timeout() -> None:
    policy = RetryPolicy(initial_delay=100.0, delay_period=0.0, max_delay=100.0)
    with cluster(Flaky, "bad1", retry=policy) as running:
        running.advance(101)
        assert (running.acked("words"), running.failed("words")) == ([0], [])


class FailingCoroutine(AsyncBolt):
    """Its inputs do not expire."""

    streams = WORD

    async def prepare_async(self, context: TaskContext) -> None:
        self.calls: list[Any] = []

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        self.calls.append(tuple_["word"])
        raise ConnectionError("no answer")


@pytest.mark.parametrize("bolt", [Flaky, FailingCoroutine])
def test_a_tuple_whose_tree_is_too_old_is_executed_no_more(bolt: Any) -> None:
    settings = {"message_timeout": 10.0, "max_tree_age": 20.0}
    with cluster(bolt, "bad99", retry=RetryPolicy(4.0, 2.0, 4.0), settings=settings) as running:
        running.advance(40)
        ((_, failure),) = running.failed("words")
        assert failure.reason.word == "too_old"
        # It expires a message timeout after its tree.
        calls = [*running.bolt("flaky").calls]
        assert 5 < len(calls) < 12
        running.advance(40)
        assert running.bolt("flaky").calls == calls
        assert (running.stats("flaky").retrying, running.stats("flaky").pending) == (0, 0)


@pytest.mark.parametrize("on_exhausted", ["fail", "dead_letter"])
def test_exhausted_retries_fail_the_tuple_or_make_it_a_dead_letter(on_exhausted: str) -> None:
    policy = RetryPolicy(1.0, 1.0, max_retries=2)
    with cluster(Flaky, "bad9", "bad2", retry=policy, on_exhausted=on_exhausted) as running:
        running.advance(10)
        letters = running.dead_letters()
        why = "3 executions of the tuple failed, the last one with ValueError: bad9"
        if on_exhausted == "fail":
            ((message_id, failure),) = running.failed("words")
            assert (message_id, failure.message, letters) == (0, why, [])
        else:
            assert [(each.reason, each.detail) for each in letters] == [("exception", why)]
            assert (sorted(running.acked("words")), running.failed("words")) == ([0, 1], [])


def test_the_dead_letter_of_a_message_counts_its_attempts_and_the_executions_of_a_tuple_apart() -> None:
    builder = TopologyBuilder("t")
    spout = KafkaSpout("words", streams=declare({"word": str}), retry=RetryPolicy(0, 0, max_retries=1))
    builder.set_spout("words", spout)
    policy = RetryPolicy(0, 0, max_retries=2)
    builder.set_bolt("flaky", Flaky, on_exception="retry", retry=policy).shuffle_grouping("words")
    with SimulatedCluster(builder.build(), topics={"words": 1}) as running:
        running.produce("words", "bad99")
        running.run_until_idle()
        (letter,) = running.dead_letters()
        executions = "3 executions of the tuple failed, the last one with ValueError: bad99"
        assert letter.detail == f"all 2 attempts failed, the last one with reason failed: {executions}"


def asks(*words: str, **options: Any) -> SimulatedCluster:
    running = cluster(Manual, *words, **{"on_exception": "fail", **options})
    running.run_until_idle()
    return running


def test_a_bolt_may_ask_for_a_retry_without_a_policy_and_twice_which_is_one_at_the_later_time() -> None:
    with asks("a", retry=None) as running:
        bolt = running.bolt("flaky")
        for delay in (5.0, 1.0):
            bolt.collector.retry(bolt.tuples[0], ConnectionError("no route"), delay=delay)
        running.advance(0.9)
        assert (len(bolt.tuples), running.stats("flaky").retrying) == (1, 1)
        bolt.collector.retry(bolt.tuples[0], delay=4.1)
        running.advance(4.0)
        assert len(bolt.tuples) == 1
        running.advance(0.1)
        assert len(bolt.tuples) == 2
        bolt.collector.ack(bolt.tuples[1])
        running.run_until_idle()
        assert (running.acked("words"), running.stats("flaky").errors) == ([0], 0)


@pytest.mark.parametrize("outcome", ["ack", "fail"])
def test_an_outcome_withdraws_the_retry(outcome: str) -> None:
    with asks("a") as running:
        bolt = running.bolt("flaky")
        bolt.collector.retry(bolt.tuples[0])
        bolt.collector.emit(("part",), anchors=bolt.tuples[0])
        getattr(bolt.collector, outcome)(bolt.tuples[0])
        running.advance(5)
        assert len(bolt.tuples) == 1
        assert [len(running.acked("words")), len(running.failed("words"))] == [outcome == "ack", outcome == "fail"]
        assert running.stats("flaky").retrying == 0
        with pytest.raises(TupleAlreadyDoneError, match="cannot retry the tuple"):
            bolt.collector.retry(bolt.tuples[0])


def test_what_was_emitted_before_the_exception_is_part_of_the_tree() -> None:
    class EmitsFirst(Flaky):
        emits_first = True

    with cluster(EmitsFirst, "bad1", settings={"message_timeout": 5.0}) as running:
        running.pause("last")
        running.advance(2)
        assert running.acked("words") == []
        running.resume("last")
        running.run_until_idle()
        assert (running.acked("words"), running.executed("last")) == ([0], [("part of bad1",), ("bad1",)])


def test_a_record_that_was_written_before_the_exception_does_not_ack() -> None:
    class Writes(Manual):
        def execute(self, tuple_: Tuple) -> None:
            super().execute(tuple_)
            if len(self.tuples) == 1:
                self.collector.write(tuple_, "out", b"first")
                raise ValueError("after all")

    with cluster(Writes, "a") as running:
        running.advance(10)
        bolt = running.bolt("flaky")
        # The second execution holds it.
        assert (len(bolt.tuples), running.acked("words"), len(running.records("out"))) == (2, [], 1)
        bolt.collector.write(bolt.tuples[1], "out", b"second")
        running.run_until_idle()
        assert (running.acked("words"), len(running.records("out"))) == ([0], 2)


def test_an_error_of_a_basic_bolt_asks_for_a_retry() -> None:
    class Busy(Flaky):
        def error(self, word: str) -> Exception:
            return RetryTupleError("the service is busy", delay=7.0)

    with cluster(Busy, "bad1", on_exception="fail") as running:
        running.advance(10)
        assert running.bolt("flaky").calls == [(0.0, "bad1"), (7.0, "bad1")]
        assert (running.acked("words"), running.stats("flaky").errors) == ([0], 0)


class Batches(InBatches):
    """Raises if a word is bad as often as it was called with it."""

    streams = WORD

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        self.calls.append([tuple_["word"] for tuple_ in tuples])
        for word in self.calls[-1]:
            if sum(word in call for call in self.calls) <= times(word):
                raise ValueError(word)
        self.collector.ack_all(tuples)


def in_a_record(bolt: Any, words: str, **options: Any) -> SimulatedCluster:
    """A bolt that receives words together."""
    builder = TopologyBuilder("retries")
    builder.set_spout("words", source(*WORD))
    builder.set_bolt("split", Split).shuffle_grouping("words")
    builder.set_bolt("flaky", bolt, on_exception="retry", retry=SECONDS, **options).shuffle_grouping("split")
    # The first batches are small.
    running = SimulatedCluster(builder.build(), sources={"words": [("w w w w w w w",)]})
    running.run_until_idle()
    running.bolt("flaky").calls.clear()
    running.feed("words", (words,))
    return running


class Columns(ArrowBolt):
    streams = WORD

    def prepare(self, context: TaskContext) -> None:
        self.calls: list[list[str]] = []

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        words = batch.column("word").to_pylist()
        self.calls.append(words)
        if (later := [at for at, word in enumerate(words) if word == "later"]) and len(self.calls) == 1:
            collector.retry("too early", later, delay=3.0)
        elif "bad" in words and len(self.calls) < 3:
            collector.ack([0])
            raise ValueError("bad")
        collector.ack([row for row in range(len(words)) if len(self.calls) > 1 or row not in later])


@pytest.mark.parametrize(
    ("bolt", "words", "calls"),
    [
        (Batches, "a bad5 b", ["a bad5 b", "a bad5 b", "a", "bad5", "b", "bad5", "bad5", "bad5"]),
        (Columns, "a bad b c", ["a bad b c", "bad b c", "b", "c"]),
        (Columns, "later a later later", ["later a later later", "later", "later later"]),
    ],
    ids=["a batch", "rows after an exception", "rows by their bolt"],
)
def test_a_batch_is_retried_as_far_as_it_is_open_first_as_a_whole_and_then_tuple_by_tuple(
    bolt: Any, words: str, calls: list[str]
) -> None:
    with in_a_record(bolt, words) as running:
        running.advance(32)
        assert [" ".join(call) for call in running.bolt("flaky").calls] == calls
        assert (running.acked("words"), running.failed("words")) == ([0, 1], [])


def test_more_than_can_wait_are_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "MOST_WAITING", 2)
    with cluster(Flaky, "bad1", "bad1 ", "bad1  ") as running:
        running.advance(3)
        ((_, failure),) = running.failed("words")
        assert failure.message.endswith("; 2 tuples of its task wait for a retry already")
        assert len(running.acked("words")) == 2


def test_with_at_most_once_no_tuple_is_executed_twice() -> None:
    settings = {"guarantee": "at_most_once"}
    with pytest.raises(TopologyError, match=r"bolt 'flaky' has on_exception=\"retry\", but guarantee=\"at_most_once\""):
        cluster(Flaky, settings=settings)
    with asks("a", settings=settings) as running:
        bolt = running.bolt("flaky")
        bolt.collector.retry(bolt.tuples[0], "busy")
        running.advance(5)
        assert (len(bolt.tuples), running.stats("flaky").failed) == (1, {"failed": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": RetryPolicy(initial_delay=300.0, max_delay=300.0)}, "after 300 s, with retry 1, but its trees fail"),
        ({"retry": RetryPolicy(max_delay=30.0, max_retries=20)}, "after 321 s, with retry 18, but its trees fail"),
        ({"on_exception": None}, "'flaky' has retry=, but no on_exception: add on_exception=\"retry\""),
        ({"retry": None, "on_exhausted": "dead_letter"}, "has on_exhausted='dead_letter', but its retries have no end"),
        ({"on_exhausted": "dead_letter"}, "but its retries have no end: add retry=RetryPolicy"),
        ({"on_exhausted": "retry"}, "on_exhausted of bolt 'flaky' is 'retry': it must be one of fail, dead_letter"),
    ],
)
def test_invalid_retries_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        cluster(Flaky, **options)
