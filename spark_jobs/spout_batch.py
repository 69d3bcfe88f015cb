"""What a Spark spout writes: source messages in; inits, tuples and dead letters out, in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from pyspark.sql import Column, DataFrame

from spark_jobs.delivering import FIELD, Deliver, Deliveries, Messages, ReplayRequest, SourceRange
from spark_jobs.entries import OUT, KafkaSender
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.frames import StreamFrame
from spark_jobs.kafka_options import executor_settings, sink_options
from spark_jobs.packing import Outputs
from spark_jobs.results import check_fields, spark_fields
from tuple_tree.manifest import Manifest, SpoutManifest
from tuple_tree.messages import SpoutAddress
from tuple_tree.names import notices_topic
from tuple_tree.positions import MAX_SPOUTS, topic_key
from tuple_tree.streams import Stream

TASK: Final = 0
"""The task of the spout that receives all outcomes: one driver follows all trees."""

_KAFKAS: Final = ("key", "value", "topic", "partition", "offset", "headers")


@dataclass(frozen=True, slots=True)
class SpoutBatch:
    """What every write of a spout has in common."""

    outputs: Outputs  # one stream
    messages: Messages
    fields: Mapping[str, Column] | None  # of the stream, over Kafka's columns; None reads the message's value
    spout: SpoutAddress
    send: KafkaSender  # of inits and dead letters
    sink: Mapping[str, str]

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        spout: SpoutManifest,
        records: DataFrame,
        fields: Mapping[str, Column] | None,
        kafka: Mapping[str, Any],
        topic_id: str,
    ) -> Self:
        """The batch of a spout; of `records`, only the columns matter."""
        index = [each.name for each in manifest.spouts].index(spout.name)
        if index >= MAX_SPOUTS:
            raise ComponentRefusedError(
                f"{spout.name!r} is spout number {index + 1} of topology {manifest.topology!r}, and positional roots "
                f"tell {MAX_SPOUTS} apart: declare it earlier, or split the topology"
            )
        stream = only_stream(spout)
        frame = StreamFrame(stream)
        form: Literal["columns", "value", "payload"] = "value" if is_whole_value(stream) else "payload"
        if fields is not None:
            form = "columns"
            chosen: list[Any] = [column.alias(name) for name, column in fields.items()]
            where = f"fields of spout {spout.name!r}"
            check_fields(records.select(*chosen).schema, stream.name, spark_fields(frame), where)
        return cls(
            Outputs.of(manifest, spout.name),
            Messages(frame, form, index, topic_key(topic_id), manifest.ack_partitions),
            fields,
            spout_task(manifest, spout),
            KafkaSender(executor_settings(kafka)),
            sink_options(kafka),
        )

    def write(
        self, records: DataFrame, deliveries: Deliveries, wanted: Mapping[int, ReplayRequest] | None = None
    ) -> list[SourceRange]:
        """Delivers all records of Spark's Kafka source, or those that are wanted by partition, and returns which.

        `deliveries` is for one thread.
        """
        types = spark_fields(self.messages.frame)
        fields = [
            column.cast(types[name]).alias(FIELD + name)
            for name, column in (self.fields or {}).items()
            if name in types
        ]
        deliver = Deliver(self.outputs, self.messages, self.spout, self.send, deliveries, wanted)
        made = records.select(*_KAFKAS, *fields).mapInArrow(deliver, OUT)
        made.write.format("kafka").options(**self.sink).save()
        # One task each, for nothing is shuffled.
        return deliveries.take(records.rdd.getNumPartitions())


def is_whole_value(stream: Stream) -> bool:
    """Whether the stream's only field is the whole value of a message, text or bytes."""
    return len(stream.fields) == 1 and stream.fields[0].type in ("string", "bytes")


def only_stream(spout: SpoutManifest) -> Stream:
    if len(spout.streams) != 1:
        raise ComponentRefusedError(
            f"spout {spout.name!r} has {len(spout.streams)} streams: a Spark spout emits exactly one, so declare a "
            "spout for each"
        )
    return spout.streams[0]


def spout_task(manifest: Manifest, spout: SpoutManifest) -> SpoutAddress:
    """Who receives the outcomes of a spout's trees."""
    return SpoutAddress(notices_topic(manifest.topology, spout.name), TASK, spout.timeout_ms)
