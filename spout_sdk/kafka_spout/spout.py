"""`KafkaSpout`: delivers the messages of topics until they are acked; its options."""

import copy
from collections.abc import Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from spout_sdk.api.components import AnySpout
from spout_sdk.api.context import TaskContext
from spout_sdk.api.needs import Needs
from spout_sdk.api.retry import RetryPolicy
from spout_sdk.api.row_types import RowType
from spout_sdk.arguments import as_topology_error, check_choice, check_count
from spout_sdk.errors import TopologyError
from spout_sdk.kafka_spout.source_task import SourceTask
from spout_sdk.kafka_spout.translation import FirstPoll, Translate, default_translate
from spout_sdk.kafka_spout.typed_translation import TypedTranslation
from spout_sdk.spouts.spout import SpoutCollector
from tuple_tree.components import OutcomesCodec
from tuple_tree.messages import Failure
from tuple_tree.names import check_topic
from tuple_tree.positions import MAX_PARTITIONS
from tuple_tree.streams import (
    DEFAULT_STREAM,
    SourceCodec,
    Streams,
    as_streams,
    declare,
)

# Without `value` the rows have any type.
T = TypeVar("T", default=Any)

_VALUE = (declare({"value": str}),)


class KafkaSpout(AnySpout, Generic[T]):
    """Reads topics, and delivers each message until its tree is acked.

        builder.spout("orders", KafkaSpout("orders", value=Order), tasks=2)
        builder.set_spout("lines", KafkaSpout("source-topic"), tasks=2)

    An instance is also a factory: a call returns a copy, one for each task. The partitions of the topics are assigned
    to the tasks in turn. It is a declaration: tasks read, replay and commit. Derive it and define `ack` and `fail` to
    be called with outcomes as well.

    The group `{topology}.{spout}` commits the offsets on the source topics. Payloads are not kept: a failed message is
    read again by its position.

    Args:
        topics: the topics to read, one or several.
        value: the type of the messages, and of the rows that it emits: a dataclass, `NamedTuple`, `TypedDict`,
            `msgspec.Struct` or pydantic model, whose JSON is decoded, or `str` or `bytes` for messages as they are.
            A message that does not fit becomes a dead letter that names the path of the wrong member.
        streams: the streams that it emits to; by default one with a field `value` of text.
        translate: returns the values of the tuple for a message, or a `KafkaTuple` for another stream; None skips it.
            By default `codec` says how a message is decoded. A message whose values do not fit the stream, or for which
            it raises `InvalidMessageError`, becomes a dead letter; with any other exception the message fails and is
            retried.
        codec: the format of the messages: `json`, an object with the fields of the stream, or `avro`, the bare body of
            a record of them, in their order. By default one field of text or bytes is the message's value, and anything
            else is JSON, or Avro if that is the codec of the stream. Tuples travel with the codec of their stream,
            whatever this is.
        first_poll: where to begin; see `FirstPoll`.
        retry: when a failed message is delivered again; for ever, unless it sets `max_retries`.
        max_uncommitted_offsets: the largest distance from the first open offset of a partition to a new one. None,
            the default, for no limit: one message that fails for ever does not stop others.
        outcomes, outcomes_codec: those of `set_spout`, unless given there.

    Attributes:
        topics, streams, translate, codec, first_poll, retry, max_uncommitted_offsets, outcomes, outcomes_codec:
            as given, or their defaults.

    Raises:
        TopologyError: if an argument is invalid.
    """

    needs = Needs(
        "a KafkaSpout",
        called_by=SourceTask,
        instance=True,
        positions=True,
        never_called={"next_tuple": "pass translate=, or derive a Spout"},
    )

    def __init__(
        self,
        topics: str | Sequence[str],
        *,
        value: type[T] | None = None,
        streams: Streams = (),
        translate: Translate | None = None,
        codec: SourceCodec | None = None,
        first_poll: FirstPoll = "uncommitted_earliest",
        retry: RetryPolicy | None = None,
        max_uncommitted_offsets: int | None = None,
        outcomes: str | None = None,
        outcomes_codec: OutcomesCodec = "json",
    ) -> None:
        self.topics = (topics,) if isinstance(topics, str) else tuple(topics)
        _check_topics(self.topics)
        check_choice("first_poll", first_poll, FirstPoll)
        if max_uncommitted_offsets is not None:
            check_count("max_uncommitted_offsets", max_uncommitted_offsets)
        self.streams = as_streams(streams) or _VALUE
        if value is not None:
            if streams or translate is not None:
                other = "streams=" if streams else "translate="
                raise TopologyError(
                    f"a KafkaSpout has value=, which says how messages become rows, and {other}: leave one of them out"
                )
            row_type = RowType(value)
            self.streams, self.row_types = (row_type.stream,), {DEFAULT_STREAM: row_type}
            translate = TypedTranslation(row_type, codec)
        elif codec is not None:
            check_choice("codec of a KafkaSpout", codec, SourceCodec)
            if translate is not None:
                raise TopologyError(
                    "a KafkaSpout has translate=, which decodes its messages, and codec=: leave one of them out"
                )
        self.translate = translate or default_translate(self.streams, codec)
        self.codec = codec
        self.first_poll = first_poll
        self.retry = retry or RetryPolicy()
        self.max_uncommitted_offsets = max_uncommitted_offsets
        self.outcomes, self.outcomes_codec = outcomes, outcomes_codec

    def __call__(self) -> "KafkaSpout[T]":
        """A spout like this one, for a task."""
        return copy.copy(self)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        """Called once, before anything is read."""

    @property
    def has_ack(self) -> bool:
        """Whether a subclass defines `ack`; without one, a call for each message would do nothing."""
        return getattr(self.ack, "__func__", None) is not KafkaSpout.ack

    def ack(self, message_id: Any) -> None:
        """The tree of this message was fully processed. It is done now, or when its outcome is delivered."""

    def fail(self, message_id: Any, failure: Failure) -> None:
        """The tree of this message was not fully processed; the message is delivered again, or given up."""

    def close(self) -> None:
        """Called at a clean stop and when the task moves to another process."""


def _check_topics(topics: Sequence[str]) -> None:
    if not topics:
        raise TopologyError("a KafkaSpout reads no topic: name at least one")
    if len(topics) > MAX_PARTITIONS:
        raise TopologyError(f"a KafkaSpout reads {len(topics)} topics: positional roots have room for {MAX_PARTITIONS}")
    for topic in topics:
        with as_topology_error(f"a KafkaSpout cannot read {topic!r}: "):
            check_topic(topic)
        if topics.count(topic) > 1:
            raise TopologyError(f"a KafkaSpout reads topic {topic} twice: name it once")
