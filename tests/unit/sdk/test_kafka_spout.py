"""A Kafka spout's task: what is emitted, committed, delivered again and given up; after the cases of Storm's spout."""

from functools import partial
from typing import Any

import pytest

from spout_sdk import (
    DeliveryError,
    FailReason,
    KafkaSpout,
    KafkaTuple,
    Record,
    RetryPolicy,
    TopologyBuilder,
    TopologyError,
    declare,
)
from spout_sdk.components import Spout
from spout_sdk.errors import TopicsError
from spout_sdk.kafka_spout.source import Commit, SourcePartition
from tests.unit.sdk.kafka_spout_rig import LOST_SECONDS, Rig, notice
from tests.unit.sdk.memory import Bench
from tests.unit.sdk.memory_source import MemoryTopics

AT_ONCE = RetryPolicy(initial_delay=0, delay_period=0, max_retries=2)


def filled(*offsets: int, **topics: int) -> MemoryTopics:
    made = MemoryTopics(**(topics or {"source": 1}))
    made.fill("source", 0, offsets)
    return made


# Offsets


def test_the_acked_prefix_is_committed_whatever_the_order() -> None:
    rig = Rig(filled(0, 1, 2, 5, 6))
    rig.work()
    assert rig.offsets() == [0, 1, 2, 5, 6]
    rig.hear(0, 1, 2, 6)
    rig.work(2)
    assert rig.topics.committed("source") == 3
    rig.hear(5)
    rig.work(2)
    assert rig.topics.committed("source") == 7


def test_nothing_is_committed_as_long_as_the_first_is_open() -> None:
    rig = Rig(filled(*range(10)))
    rig.work()
    rig.hear(*range(1, 10))
    rig.work(2)
    assert rig.topics.committed("source") == 0


def test_a_commit_that_fails_is_said_again() -> None:
    rig = Rig(filled(0, 1))
    rig.work()
    rig.hear(0)
    rig.topics.refuses_commits = True
    rig.work(2)
    assert rig.topics.committed("source") == 0
    rig.topics.refuses_commits = False
    rig.work(2)
    assert rig.topics.committed("source") == 1


@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once", "no_guarantee"])
def test_offsets_of_a_quiet_partition_are_committed_again_before_the_broker_forgets_them(mode: Any) -> None:
    rig = Rig(filled(0, 1), mode=mode)
    rig.work()
    if mode == "at_least_once":
        rig.hear(0, 1)
    rig.work(2)
    at = SourcePartition("source", 0)
    before = rig.topics.commits.pop(at)
    assert before.offset == 2
    rig.work(3_000)
    assert at not in rig.topics.commits
    rig.work(700)
    assert rig.topics.commits[at] == before


def test_a_clean_end_commits_at_once() -> None:
    rig = Rig(filled(0, 1, 2))
    rig.work()
    rig.hear(0, 1)
    rig.task.release()
    rig.task.close()
    assert rig.topics.committed("source") == 2
    assert rig.source.is_closed


def test_who_takes_over_goes_on_behind_the_acked_prefix() -> None:
    rig = Rig(filled(*range(6)))
    rig.work()
    rig.hear(0, 1, 3)
    rig.task.release()
    rig.offsets()
    rig.restart()
    rig.work()
    assert rig.offsets() == [2, 3, 4, 5]


def test_outcomes_of_an_earlier_owner_are_ignored() -> None:
    rig = Rig(filled(*range(3)))
    rig.work()
    before = [rig.root(sent) for sent in rig.bench.sink.tuples]
    rig.restart()
    rig.work()
    after = [rig.root(sent) for sent in rig.bench.sink.tuples[3:]]
    assert not set(before) & set(after)
    rig.task.handle(notice(before))
    rig.work(2)
    assert rig.topics.committed("source") == 0
    assert rig.bench.counters.ignored_notices == 3
    rig.hear(0, 1, 2)
    rig.work(2)
    assert rig.topics.committed("source") == 3


# Tasks and partitions


def test_partitions_go_round_the_tasks_and_growth_moves_none() -> None:
    topics = MemoryTopics(a=3, b=3)
    before = [set(_owned(topics, task)) for task in range(2)]
    assert before[0] | before[1] == set(topics.logs)
    assert {len(each) for each in before} == {3}
    topics.grow("a", 7)
    after = [set(_owned(topics, task)) for task in range(2)]
    assert all(old <= new for old, new in zip(before, after, strict=True))


def _owned(topics: MemoryTopics, task: int) -> dict[SourcePartition, int]:
    rig = Rig(topics, task=task, tasks=2)
    rig.work()
    return rig.source.positions


def test_a_partition_that_is_added_is_read_from_its_beginning() -> None:
    topics = filled(0, 1)
    rig = Rig(topics, first_poll="latest")
    rig.work()
    assert rig.offsets() == []
    topics.grow("source", 2)
    topics.fill("source", 1, [0, 1])
    rig.work(31)
    rig.work()
    assert rig.positions() == [(1, 0, 0), (1, 1, 0)]


def test_more_partitions_than_roots_can_tell_apart_are_refused() -> None:
    with pytest.raises(TopicsError, match=r"b has partition 2048, .* tell 2048 partitions apart of each of 2 topics"):
        Rig(MemoryTopics(a=1, b=2_049)).work()


def test_while_nobody_answers_it_waits_and_begins_then() -> None:
    topics = filled(0)
    topics.is_down = True
    rig = Rig(topics)
    rig.work()
    assert rig.offsets() == []
    topics.is_down = False
    rig.work(0.5)
    assert rig.offsets() == [], "it asks again after a second"
    rig.work(1)
    assert rig.offsets() == [0]


def test_nothing_is_emitted_before_it_is_committed_where_it_begins() -> None:
    topics = filled(0)
    topics.refuses_commits = True
    rig = Rig(topics)
    rig.work(5)
    assert rig.offsets() == []
    topics.refuses_commits = False
    rig.work(5)
    assert rig.offsets() == [0]


# First poll


@pytest.mark.parametrize(
    ("strategy", "committed", "start"),
    [
        ("uncommitted_earliest", None, 10),
        ("uncommitted_latest", None, 15),
        ("earliest", None, 10),
        ("latest", None, 15),
        ("uncommitted_earliest", Commit(12), 12),
        ("uncommitted_latest", Commit(12), 12),
        ("earliest", Commit(12), 10),
        ("latest", Commit(12), 15),
        ("earliest", Commit(12, 8), 12),
        ("latest", Commit(12, 8), 12),
    ],
)
def test_where_the_first_poll_begins(strategy: Any, committed: Commit | None, start: int) -> None:
    topics = MemoryTopics(source=1)
    topics.delete_before("source", 0, 10)
    topics.fill("source", 0, range(10, 15))
    at = SourcePartition("source", 0)
    if committed is not None:
        topics.commits[at] = committed
    rig = Rig(topics, first_poll=strategy)
    rig.work()
    assert rig.offsets() == list(range(start, 15))
    assert topics.commits[at].offset == start, "where it begins is committed, so that a crash does not move it"


def test_what_was_deleted_unread_is_told(caplog: pytest.LogCaptureFixture) -> None:
    topics = MemoryTopics(source=1)
    topics.delete_before("source", 0, 10)
    topics.fill("source", 0, [10])
    topics.commits[SourcePartition("source", 0)] = Commit(4, 4)
    rig = Rig(topics)
    rig.work()
    assert rig.offsets() == [10]
    assert "up to 6 messages of source[0], from offset 4 on, were deleted before they were read" in caplog.text
    topics.delete_before("source", 0, 30)
    topics.fill("source", 0, [30])
    rig.work()
    assert rig.offsets() == [30]
    assert "up to 19 messages of source[0], from offset 11 on" in caplog.text


def test_a_topic_that_was_made_anew_is_refused() -> None:
    topics = filled(0, 1)
    topics.commits[SourcePartition("source", 0)] = Commit(50, 4)
    with pytest.raises(TopicsError, match=r"source\[0\] ends at offset 2, before offset 50"):
        Rig(topics).work()


# Failures


def test_a_failed_message_is_read_again_and_delivered_under_another_root() -> None:
    rig = Rig(filled(0, 1, 2), retry=AT_ONCE)
    rig.work()
    assert rig.positions() == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]
    rig.fail(1)
    rig.hear(0, 2)
    rig.work()
    assert rig.positions() == [(0, 1, 1)]
    assert rig.values(rig.bench.sink.tuples[-1]) == ("source/0@1",)
    rig.hear(1)
    rig.work(2)
    assert rig.topics.committed("source") == 3


@pytest.mark.parametrize("reason", [FailReason.TIMEOUT, FailReason.TOO_OLD])
def test_every_reason_leads_to_a_replay(reason: FailReason) -> None:
    rig = Rig(filled(0), retry=AT_ONCE)
    rig.work()
    rig.fail(0, reason=reason)
    rig.work()
    assert rig.positions() == [(0, 0, 0), (0, 0, 1)]


def test_without_any_outcome_it_is_lost_and_delivered_again() -> None:
    rig = Rig(filled(0), retry=AT_ONCE)
    rig.work()
    for _ in range(3):
        rig.work(LOST_SECONDS / 2)
    assert rig.positions() == [(0, 0, 0), (0, 0, 1)]
    assert rig.bench.counters.failed == {"lost": 1}


def test_a_retry_waits_for_its_delay() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(initial_delay=1, delay_period=2, max_delay=100, max_retries=None))
    rig.work()
    rig.offsets()
    for delay in (1, 4, 8):
        rig.fail(0)
        rig.work(delay - 0.1)
        assert rig.offsets() == []
        rig.work(0.2)
        assert rig.offsets() == [0]


def test_new_messages_do_not_wait_for_retries() -> None:
    rig = Rig(filled(0, 1), retry=RetryPolicy(initial_delay=100, max_delay=100))
    rig.work()
    rig.fail(0)
    rig.topics.fill("source", 0, [2, 3])
    rig.work()
    assert rig.offsets() == [0, 1, 2, 3]


def test_far_apart_failures_are_read_in_several_rounds() -> None:
    rig = Rig(filled(*range(3_000)), retry=AT_ONCE)
    rig.work()
    rig.offsets()
    rig.fail(5, 900, 1_500, 2_999)
    rig.work()
    assert rig.offsets() == [5, 900]
    rig.work()
    rig.work()
    assert rig.offsets() == [1_500, 2_999]


def test_after_the_last_retry_it_is_a_dead_letter_whose_offset_is_committable() -> None:
    rig = Rig(filled(0, 1), retry=AT_ONCE)
    rig.work()
    rig.hear(1)
    for _ in range(3):
        rig.hear(failed={0: "no room"})
        rig.work(2)
    assert rig.positions() == [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 2)]
    (letter,) = rig.bench.sink.to(".dead-letters")
    assert letter.value == b"source/0@0"
    said = {name: text.decode() for name, text in letter.header.items()}
    assert said == {
        "dead-letter.topic": "source",
        "dead-letter.partition": "0",
        "dead-letter.offset": "0",
        "dead-letter.reason": "retries-exhausted",
        "dead-letter.detail": "all 3 attempts failed, the last one with reason failed: no room",
        "dead-letter.by": "lines/0",
    }
    rig.work(2)
    assert rig.topics.committed("source") == 2


def test_until_its_dead_letter_is_delivered_the_offset_is_not_committed() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(max_retries=0))
    rig.work()
    rig.bench.sink.holds_back = True
    rig.fail(0)
    rig.work(2)
    assert rig.letters() == [(b"source/0@0", "retries-exhausted")]
    assert rig.topics.committed("source") == 0
    rig.bench.sink.to(".dead-letters")[0].deliver()
    rig.work(2)
    assert rig.topics.committed("source") == 1


def test_a_dead_letter_that_is_not_delivered_stops_the_process() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(max_retries=0))
    rig.work()
    rig.bench.sink.holds_back = True
    rig.fail(0)
    rig.work()
    rig.bench.sink.to(".dead-letters")[0].deliver("message timed out")
    with pytest.raises(DeliveryError, match=r"a dead letter for t\.dead-letters"):
        rig.work(2)
    assert rig.topics.committed("source") == 0


@pytest.mark.parametrize("retention", [True, False])
def test_what_the_source_does_not_have_any_more_is_told_and_done(retention: bool) -> None:
    rig = Rig(filled(0, 1, 2), retry=AT_ONCE)
    rig.work()
    rig.fail(1)
    rig.hear(0, 2)
    if retention:
        rig.topics.delete_before("source", 0, 2)
    else:
        rig.topics.delete("source", 0, 1)
    rig.work(2)
    assert rig.letters() == [(None, "gone")]
    assert rig.bench.counters.dead_letters == 1
    rig.work(2)
    assert rig.topics.committed("source") == 3


def test_what_cannot_be_read_by_position_in_time_is_read_later() -> None:
    rig = Rig(filled(0), retry=AT_ONCE)
    rig.work()
    rig.topics.is_down = True
    rig.fail(0)
    rig.work()
    rig.topics.is_down = False
    rig.work(0.5)
    assert rig.offsets() == [0]
    rig.work(1)
    assert rig.offsets() == [0]


# Attempts


def test_who_takes_over_uses_other_attempts() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(initial_delay=0, delay_period=0, max_retries=None))
    rig.work()
    for _ in range(5):
        rig.fail(0)
        rig.work()
    assert [attempt for _, _, attempt in rig.positions()] == [0, 1, 2, 3, 4, 5]
    rig.restart()
    rig.work()
    assert [attempt for _, _, attempt in rig.positions()] == [8]


def test_more_attempts_are_used_only_once_that_is_committed() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(initial_delay=0, delay_period=0, max_retries=None))
    rig.work()
    for _ in range(3):
        rig.fail(0)
        rig.work()
    rig.topics.refuses_commits = True
    rig.fail(0)
    rig.work()
    assert [attempt for _, _, attempt in rig.positions()] == [0, 1, 2, 3]
    rig.topics.refuses_commits = False
    rig.work(2)
    rig.work()
    assert [attempt for _, _, attempt in rig.positions()] == [4]


def test_after_the_last_attempt_the_first_follows() -> None:
    topics = filled(0)
    topics.commits[SourcePartition("source", 0)] = Commit(0, 62)
    rig = Rig(topics, retry=RetryPolicy(initial_delay=0, delay_period=0, max_retries=None))
    rig.work()
    for _ in range(20):
        rig.fail(0)
        rig.work()
    attempts = [attempt for _, _, attempt in rig.positions()]
    # Sixteen of its own, and then these again but for the first.
    assert attempts == [62, 63, *range(14), *[63, 0, 1, 2, 3]]
    rig.work(2)
    assert topics.commits[SourcePartition("source", 0)].next_attempt == 14


@pytest.mark.parametrize(
    ("metadata", "attempt"),
    [
        ("attempt=7", 7),
        ("attempt=71", 7),
        ("", None),
        (None, None),
        ("attempt=", None),
        ("attempt=-1", None),
        ("notices=5", None),
        ("attempt=²", None),
    ],
)
def test_what_stands_beside_a_committed_offset_may_be_anything(metadata: str | None, attempt: int | None) -> None:
    assert Commit.read(5, metadata) == Commit(5, attempt)


# Limits


def test_uncommitted_offsets_are_limited_and_replays_are_not() -> None:
    rig = Rig(filled(*range(30)), max_uncommitted_offsets=10, retry=AT_ONCE)
    rig.work()
    assert rig.offsets() == list(range(10))
    rig.hear(*range(1, 10))
    rig.work(2)
    assert rig.offsets() == [], "nine are acked, but behind one that is open"
    rig.fail(0)
    rig.work()
    assert rig.offsets() == [0], "what is open may always be delivered again"
    rig.fail(0)
    rig.work()
    assert rig.offsets() == [0]
    rig.hear(0)
    rig.work()
    assert rig.offsets() == list(range(10, 20))
    assert rig.spout.progress.uncommitted == 10


def test_one_partition_at_its_limit_does_not_hold_another() -> None:
    topics = filled(*range(30), source=2)
    topics.fill("source", 1, range(30))
    rig = Rig(topics, max_uncommitted_offsets=10)
    rig.work()
    rig.offsets()
    rig.hear(*range(10), partition=1)
    rig.work()
    assert rig.positions() == [(1, offset, 0) for offset in range(10, 20)]


def test_pending_trees_are_limited_and_replays_count() -> None:
    rig = Rig(filled(*range(30)), max_pending=5, retry=AT_ONCE)
    rig.work()
    assert rig.offsets() == [0, 1, 2, 3, 4]
    rig.fail(0, 1)
    rig.work()
    assert len(rig.offsets()) == 2
    rig.work()
    rig.hear(2, 3, 4)
    rig.work()
    rig.work()
    assert rig.task.pending == 5
    assert 0 in rig.offsets()


def test_progress_says_how_far_it_is() -> None:
    rig = Rig(filled(*range(30)), max_uncommitted_offsets=10, retry=RetryPolicy(initial_delay=9))
    rig.work()
    rig.fail(3)
    assert (rig.spout.progress.lag, rig.spout.progress.uncommitted, rig.spout.progress.retries) == (20, 10, 1)


# Modes


def test_at_most_once_commits_before_it_emits() -> None:
    topics = filled(*range(5))
    rig = Rig(topics, mode="at_most_once")
    rig.work()
    assert [values for (values,) in rig.emitted()] == [f"source/0@{n}" for n in range(5)]
    assert topics.committed("source") == 5
    assert (rig.task.pending, rig.bench.sink.batches) == (0, [])
    topics.refuses_commits = True
    topics.fill("source", 0, [5, 6])
    rig.work()
    assert rig.emitted() == []
    topics.refuses_commits = False
    rig.work(2)
    assert len(rig.emitted()) == 2
    assert topics.committed("source") == 7


def test_at_most_once_loses_nothing_at_a_clean_end() -> None:
    rig = Rig(filled(*range(20)), mode="at_most_once")
    rig.task.tick(rig.clock())
    rig.task.emit(5)
    assert len(rig.emitted()) == 5
    assert rig.topics.committed("source") == 20
    rig.task.release()
    assert rig.topics.committed("source") == 5
    rig.restart()
    rig.work()
    assert [values for (values,) in rig.emitted()] == [f"source/0@{n}" for n in range(5, 20)]


def test_without_trees_at_most_once_is_the_default() -> None:
    rig = Rig(filled(0), guarantee="at_most_once")
    rig.work()
    assert rig.topics.committed("source") == 1
    with pytest.raises(TopologyError, match="mode at_least_once needs a topology that follows trees"):
        Rig(filled(0), guarantee="at_most_once", mode="at_least_once")


def test_without_a_guarantee_what_was_emitted_is_committed_now_and_then() -> None:
    rig = Rig(filled(0, 1), mode="no_guarantee")
    rig.work()
    assert len(rig.emitted()) == 2
    assert rig.topics.committed("source") == 0
    rig.work(2)
    assert rig.topics.committed("source") == 2
    rig.topics.fill("source", 0, [2])
    rig.work()
    rig.task.release()
    assert rig.topics.committed("source") == 3


# Messages


def test_messages_that_cannot_be_used_are_dead_letters_and_done() -> None:
    def translate(record: Record) -> Any:
        if record.offset() == 1:
            raise ValueError("not today")
        return (5,) if record.offset() == 2 else ("fine",)

    rig = Rig(filled(0, 1, 2, 3), translate=translate)
    rig.work()
    assert rig.offsets() == [0, 3]
    details = [sent.header["dead-letter.detail"].decode() for sent in rig.bench.sink.to(".dead-letters")]
    assert details[0] == "translate() raised ValueError: not today"
    assert "'lines' cannot emit to stream 'default' (value)" in details[1]
    assert [reason for _, reason in rig.letters()] == ["bad-payload"] * 2
    rig.hear(0, 3)
    rig.work(2)
    assert rig.topics.committed("source") == 4


def test_what_is_passed_over_counts_as_done() -> None:
    rig = Rig(filled(*range(10)), translate=lambda record: None if (record.offset() or 0) % 2 else ("even",))
    rig.work()
    assert rig.offsets() == [0, 2, 4, 6, 8]
    rig.hear(0, 2, 4, 6, 8)
    rig.work(2)
    assert rig.topics.committed("source") == 10
    assert rig.bench.counters.users == {"passed over": 5}


def test_next_tuple_returns_soon_where_everything_is_passed_over() -> None:
    rig = Rig(filled(*range(2_000)), translate=lambda _: None)
    rig.task.tick(rig.clock())
    for calls in range(1, 5):
        assert not rig.task.emit(64)
        assert rig.bench.counters.users == {"passed over": 500 * calls}
    rig.work(2)
    assert rig.topics.committed("source") == 2_000


def test_translate_sees_all_of_a_message() -> None:
    topics = MemoryTopics(source=1)
    topics.add("source", 0, 3, None, b"key", [("name", b"x")])
    streams = [declare({"said": str}, name="tombstones")]

    def translate(record: Record) -> KafkaTuple:
        told = (record.topic(), record.partition(), record.offset(), record.key(), record.value(), record.headers())
        return KafkaTuple((f"{told} {record.timestamp()[1]}",), "tombstones")

    rig = Rig(topics, streams=[declare(["value"]), *streams], translate=translate)
    rig.work()
    assert rig.bench.counters.emitted == 1
    assert rig.bench.sink.tuples == [], "nobody receives that stream"
    rig.hear()
    assert rig.task.pending == 1


@pytest.mark.parametrize(
    ("stream", "value", "emitted"),
    [
        (declare(["line"]), "grün".encode(), ("grün",)),
        (declare({"raw": bytes}), b"\xff\x00", (b"\xff\x00",)),
        (declare(["raw"], codec="bytes"), b"\xff", (b"\xff",)),
        (declare({"n": int, "s": str}, codec="json"), b'{"s":"a","n":5}', (5, "a")),
    ],
)
def test_values_by_default(stream: Any, value: bytes, emitted: tuple[Any, ...]) -> None:
    topics = MemoryTopics(source=1)
    topics.add("source", 0, 0, value)
    rig = Rig(topics, streams=[stream])
    rig.work()
    assert rig.emitted() == [emitted]


@pytest.mark.parametrize(
    ("stream", "value"),
    [(declare(["line"]), b"\xff"), (declare(["line"]), None), (declare({"n": int}, codec="json"), b"no")],
)
def test_what_cannot_be_read_by_default_is_a_dead_letter(stream: Any, value: bytes | None) -> None:
    topics = MemoryTopics(source=1)
    topics.add("source", 0, 0, value)
    rig = Rig(topics, streams=[stream])
    rig.work(2)
    rig.work(2)
    assert rig.letters() == [(value, "bad-payload")]
    assert topics.committed("source") == 1


# Declaring


def test_an_instance_a_partial_a_function_and_a_subclass_can_be_declared() -> None:
    class Mine(KafkaSpout):
        def __init__(self) -> None:
            super().__init__("mine", streams=[declare(["mine"])])

    builder = TopologyBuilder("t")
    builder.set_spout("instance", KafkaSpout(["a", "b"]))
    builder.set_spout("partial", partial(KafkaSpout, "c", streams=[declare(["c"])]))
    builder.set_spout("function", lambda: KafkaSpout("d"))
    builder.set_spout("subclass", Mine)
    builder.set_spout("other", Spout)
    topology = builder.build()
    assert topology.sources == {"instance": ("a", "b"), "partial": ("c",), "function": ("d",), "subclass": ("mine",)}
    assert [topology.manifest.component(name).streams[0].field_names for name in ("partial", "subclass")] == [
        ("c",),
        ("mine",),
    ]


def test_each_task_has_a_spout_of_its_own() -> None:
    spout = KafkaSpout("a")
    assert spout() is not spout
    assert isinstance(spout(), KafkaSpout)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: KafkaSpout([]), "reads no topic"),
        (lambda: KafkaSpout("a b"), "cannot read 'a b'"),
        (lambda: KafkaSpout(["a", "a"]), "reads topic a twice"),
        (lambda: KafkaSpout([f"t{n}" for n in range(4_097)]), "reads 4097 topics"),
        (lambda: KafkaSpout("a", first_poll="soon"), "first_poll is 'soon'"),  # type: ignore[arg-type]
        (lambda: KafkaSpout("a", mode="twice"), "mode of a KafkaSpout is 'twice'"),  # type: ignore[arg-type]
        (lambda: KafkaSpout("a", max_uncommitted_offsets=0), "max_uncommitted_offsets is 0"),
        (lambda: KafkaSpout("a", streams=[declare(["a"]), declare(["b"], name="b")]), "needs translate="),
    ],
)
def test_what_cannot_be_is_refused(make: Any, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        make()


def test_without_kafka_there_is_no_kafka_spout() -> None:
    rig = Rig(filled(0))
    with pytest.raises(TopologyError, match="there is no Kafka here"):
        Bench(rig.bench.topology).spout("lines")
