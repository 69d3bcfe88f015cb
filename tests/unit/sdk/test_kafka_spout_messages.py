"""A Kafka spout's task: messages as tuples, and declarations."""

from functools import partial
from typing import Any

import pytest

from spout_sdk import Failure, KafkaSpout, RetryPolicy, TopologyBuilder, declare
from spout_sdk.errors import ComponentError, InvalidMessageError, TopologyError
from spout_sdk.kafka_spout import KafkaTuple, Record
from spout_sdk.kafka_spout.kafka_source import KafkaSource
from tests.unit.sdk.kafka_spout_rig import Rig


def test_messages_that_cannot_be_used_are_dead_letters_and_done_and_other_exceptions_are_retried() -> None:
    outage = [OSError("the database is away")] * 3

    def translate(record: Record) -> Any:
        match record.offset():
            case 1:
                raise InvalidMessageError("not today")
            case 2:
                return (5,)
            case 3 if outage:
                raise outage.pop()
        return ("fine",)

    rig = Rig(range(5), translate=translate, retry=RetryPolicy(initial_delay=0, delay_period=0))
    for _ in range(7):
        rig.work(0.5)
    assert (rig.offsets(), rig.stats.errors) == ([0, 4, 3], 3)
    details = [sent.header["dead-letter.detail"].decode() for sent in rig.sink.to(".dead-letters")]
    assert details[0] == "translate() raised InvalidMessageError: not today"
    assert "'lines' cannot emit to stream 'default' (value)" in details[1]
    assert [reason for _, reason in rig.letters()] == ["bad-payload"] * 2
    rig.notify(0, 3, 4)
    rig.work(2)
    assert rig.committed == 5


def test_messages_that_translate_skips_are_done() -> None:
    rig = Rig(range(2_001), translate=lambda record: None if record.offset() else ("first",))
    rig.work()
    rig.notify(0)
    for _ in range(3):
        rig.work(2)
    assert rig.stats.counters == {"skipped": 2_000}
    assert rig.committed == 2_001


def test_translate_receives_all_of_a_message_and_chooses_the_stream() -> None:
    seen: list[Any] = []

    def translate(record: Record) -> KafkaTuple:
        seen.extend([record.topic(), record.partition(), record.offset(), record.key(), record.value()])
        seen.extend([record.headers(), record.timestamp()[1]])
        return KafkaTuple(("a",), "tombstones")

    streams = [declare(["value"]), declare({"text": str}, name="tombstones")]
    rig = Rig([2], streams=streams, translate=translate, first_poll="latest")
    rig.work()
    rig.add(None, key=b"key", headers=[("name", b"x")])
    rig.work()
    assert seen == ["source", 0, 3, b"key", None, [("name", b"x")], 1_700_000_000_000]
    # No bolt receives that stream.
    assert (rig.stats.emitted, rig.sink.tuples, rig.stats.pending) == (1, [], 1)


@pytest.mark.parametrize(
    ("stream", "value", "emitted"),
    [
        (declare(["line"]), "grün".encode(), ("grün",)),
        (declare({"raw": bytes}), b"\xff\x00", (b"\xff\x00",)),
        (declare(["raw"], codec="bytes"), b"\xff", (b"\xff",)),
        (declare({"n": int, "s": str}, codec="json"), b'{"s":"a","n":5}', (5, "a")),
        (declare(["line"]), b"\xff", None),
        (declare(["line"]), None, None),
        (declare({"n": int}, codec="json"), b"no", None),
    ],
)
def test_values_by_default_are_the_message_or_a_dead_letter(
    stream: Any, value: bytes | None, emitted: tuple[Any, ...] | None
) -> None:
    rig = Rig(streams=[stream])
    rig.add(value)
    rig.work(2)
    rig.work(2)
    assert rig.emitted() == ([] if emitted is None else [emitted])
    assert rig.letters() == ([(value, "bad-payload")] if emitted is None else [])
    assert rig.committed == (emitted is None)


@pytest.mark.parametrize(
    "stream", [declare(["line"], codec="json"), declare(["line"], codec="avro"), declare(["line"], codec="bytes")]
)
def test_messages_that_are_read_together_are_encoded_one_by_one(stream: Any) -> None:
    rig = Rig(streams=[stream])
    for first in (0, 3):
        for offset in range(first, first + 3):
            rig.add(b"%d" % offset)
        rig.work(2)
        lines = [values[0] for values in rig.emitted()]
        assert [int(line) for line in lines] == [*range(first, first + 3)]


def test_an_instance_a_partial_a_function_and_a_subclass_can_be_declared() -> None:
    class Mine(KafkaSpout):
        def __init__(self) -> None:
            super().__init__("mine", streams=[declare(["mine"])])

    instance = KafkaSpout(["a", "b"])
    builder = TopologyBuilder("t")
    builder.set_spout("instance", instance)
    builder.set_spout("partial", partial(KafkaSpout, "c", streams=[declare(["c"])]))
    builder.set_spout("function", lambda: KafkaSpout("d"))
    builder.set_spout("subclass", Mine)
    topology = builder.build()
    assert topology.sources == {"instance": ("a", "b"), "partial": ("c",), "function": ("d",), "subclass": ("mine",)}
    declared = [topology.manifest.component(name).streams[0].field_names for name in ("partial", "subclass")]
    assert declared == [("c",), ("mine",)]
    made = topology.factory("instance")()
    assert isinstance(made, KafkaSpout)
    assert made is not instance, "each task has a spout of its own"


def test_outcomes_of_a_subclass_are_called_before_a_message_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Any] = []
    closed: list[KafkaSource] = []
    monkeypatch.setattr(KafkaSource, "close", lambda source: closed.append(source))

    class Mine(KafkaSpout):
        def ack(self, message_id: Any) -> None:
            if message_id == 3:
                raise OSError("no room for it")
            received.append(message_id)

        def fail(self, message_id: Any, failure: Failure) -> None:
            super().fail(message_id, failure)
            received.append((message_id, failure.message))

        def close(self) -> None:
            raise OSError("close() without super()")

    rig = Rig([0, 1, 2, 3], kind=Mine)
    rig.work()
    rig.notify(0, 2)
    rig.notify(failed={1: "no"})
    rig.work(1)
    rig.notify(1)
    assert received == [0, 2, (1, "no"), 1]
    with pytest.raises(ComponentError, match=r"ack\(\) raised OSError: no room for it"):
        rig.notify(3)
    rig.restart(cleanly=True)
    assert (rig.committed, len(closed)) == (3, 1)


def test_invalid_declarations_are_rejected() -> None:
    refusals: list[tuple[Any, str]] = [
        (lambda: KafkaSpout([]), "reads no topic"),
        (lambda: KafkaSpout("a b"), "cannot read 'a b'"),
        (lambda: KafkaSpout(["a", "a"]), "reads topic a twice"),
        (lambda: KafkaSpout([f"t{n}" for n in range(4_097)]), "reads 4097 topics"),
        (lambda: KafkaSpout("a", first_poll="soon"), "first_poll is 'soon'"),  # type: ignore[arg-type]
        (lambda: KafkaSpout("a", max_uncommitted_offsets=0), "max_uncommitted_offsets is 0"),
        (lambda: KafkaSpout("a", streams=[declare(["a"]), declare(["b"], name="b")]), "needs translate="),
    ]
    for make, message in refusals:
        with pytest.raises(TopologyError, match=message):
            make()
