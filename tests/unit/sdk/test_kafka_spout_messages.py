"""A Kafka spout's task: its modes, messages as tuples, and declaring it."""

from functools import partial
from typing import Any

import pytest

from spout_sdk import (
    KafkaSpout,
    KafkaTuple,
    Record,
    TopologyBuilder,
    TopologyError,
    declare,
)
from spout_sdk.components import Spout
from tests.unit.sdk.kafka_spout_rig import Rig, filled
from tests.unit.sdk.memory import Bench
from tests.unit.sdk.memory_source import MemoryTopics

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

    class Other(Spout):
        def next_tuple(self) -> None:
            """Has nothing to emit."""

    builder = TopologyBuilder("t")
    builder.set_spout("instance", KafkaSpout(["a", "b"]))
    builder.set_spout("partial", partial(KafkaSpout, "c", streams=[declare(["c"])]))
    builder.set_spout("function", lambda: KafkaSpout("d"))
    builder.set_spout("subclass", Mine)
    builder.set_spout("other", Other)
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
