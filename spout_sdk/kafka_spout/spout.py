"""`KafkaSpout`: the messages of any topics, delivered until they are acked."""

import copy
from collections.abc import Sequence
from typing import Any

from spout_sdk.api.components import Failure, Spout
from spout_sdk.api.context import TaskContext
from spout_sdk.arguments import as_topology_error, check_choice, check_count
from spout_sdk.emitting.environment import TaskScope
from spout_sdk.errors import TopologyError
from spout_sdk.kafka_spout.settings import (
    FirstPoll,
    Mode,
    RetryPolicy,
    SourceProgress,
    SourceSettings,
    Translate,
    default_translate,
)
from spout_sdk.kafka_spout.source_task import SourceTask
from spout_sdk.spouts.spout_collector import SpoutCollector
from tuple_tree.names import check_topic
from tuple_tree.positions import MAX_PARTITIONS, MAX_SPOUTS
from tuple_tree.streams import Stream, declare

_VALUE = (declare({"value": str}),)


class KafkaSpout(Spout):
    """Reads topics, and delivers each message until its tree is acked.

        builder.set_spout("lines", KafkaSpout("source-topic"), tasks=2)

    An instance is a factory too: called, it returns a spout like itself, which is what each task gets. The partitions
    of the topics go round the tasks.

    How far all is done is the offset of the group `{topology}.{spout}` on the source topics. No payload is kept: what
    fails is read again by its position.

    Args:
        topics: to read, one or several.
        streams: what is emitted; by default one field `value` of text.
        translate: makes the values of a tuple of a message, or a `KafkaTuple` for another stream; None skips it.
            By default, one field of text or bytes is the message's value, and anything else is read with the stream's
            codec. A message whose values do not fit the stream, or for which it raises `InvalidMessageError`, becomes a
            dead letter; with any other exception the message has failed and is retried.
        first_poll: where to begin; see `FirstPoll`.
        mode: see `Mode`; `at_least_once` unless the topology follows no trees, and then `at_most_once`.
        retry: when a failed message is delivered again; for ever, unless it sets `max_retries`.
        max_uncommitted_offsets: of a partition; with so many behind the first that is open, no new ones are read.

    Raises:
        TopologyError: if an argument is invalid.
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        *,
        streams: Sequence[Stream] = _VALUE,
        translate: Translate | None = None,
        first_poll: FirstPoll = "uncommitted_earliest",
        mode: Mode | None = None,
        retry: RetryPolicy | None = None,
        max_uncommitted_offsets: int = 100_000,
    ) -> None:
        self.topics = (topics,) if isinstance(topics, str) else tuple(topics)
        _check_topics(self.topics)
        check_choice("first_poll", first_poll, FirstPoll)
        if mode is not None:
            check_choice("mode of a KafkaSpout", mode, Mode)
        check_count("max_uncommitted_offsets", max_uncommitted_offsets)
        self.streams = tuple(streams)
        translate = translate or default_translate(self.streams)
        retry = retry or RetryPolicy()
        self._settings = SourceSettings(self.topics, translate, first_poll, mode, retry, max_uncommitted_offsets)
        self._is_attached = False
        self._source: SourceTask | None = None

    def __call__(self) -> "KafkaSpout":
        """A spout like this one, for a task."""
        return copy.copy(self)

    def attach(self, scope: TaskScope) -> None:
        """Called by the SDK before `open`; raises `TopologyError` if the spout cannot run in this topology."""
        context = scope.context
        if scope.environment.open_source is None:
            raise TopologyError(f"component {context.component!r} is a KafkaSpout, and there is no Kafka here")
        number = 1 + [spout.name for spout in context.manifest.spouts].index(context.component)
        if number > MAX_SPOUTS:
            raise TopologyError(
                f"a KafkaSpout is spout number {number} of its topology, and positional roots tell {MAX_SPOUTS} apart: "
                "declare it earlier, or split the topology"
            )
        if self._settings.mode == "at_least_once" and not context.manifest.acking:
            raise TopologyError(
                "a KafkaSpout with mode at_least_once needs a topology that follows trees: give the topology another "
                "guarantee than at_most_once, or leave mode out"
            )
        self._is_attached = True

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:  # noqa: ARG002 - the collector has it
        """Called once, before anything else."""
        if not self._is_attached:
            raise TopologyError("a KafkaSpout works only as a spout of a topology: give it to set_spout")
        self._source = SourceTask(self._settings, collector)

    def next_tuple(self) -> None:
        """Emits a message, if there is one."""
        self.source.emit(1)

    def ack(self, message_id: Any) -> None:
        """The tree of a message was fully processed."""
        self.source.acked((message_id,))

    def fail(self, message_id: Any, reason: Failure) -> None:
        """The tree of a message was not fully processed."""
        self.source.failed(message_id, reason)

    def close(self) -> None:
        """Called when the task ends."""
        if self._source is not None:
            self._source.close()

    @property
    def progress(self) -> SourceProgress:
        """How far the task is with its source."""
        return self.source.progress

    @property
    def source(self) -> SourceTask:
        """Called by the SDK: what reads and commits in the task's loop."""
        assert self._source is not None, "open() comes first"  # noqa: S101 - the SDK's own order of calls
        return self._source


def _check_topics(topics: Sequence[str]) -> None:
    if not topics:
        raise TopologyError("a KafkaSpout reads no topic: name at least one")
    if len(topics) > MAX_PARTITIONS:
        raise TopologyError(f"a KafkaSpout reads {len(topics)} topics: positional roots tell {MAX_PARTITIONS} apart")
    for topic in topics:
        with as_topology_error(f"a KafkaSpout cannot read {topic!r}: "):
            check_topic(topic)
        if topics.count(topic) > 1:
            raise TopologyError(f"a KafkaSpout reads topic {topic} twice: name it once")
