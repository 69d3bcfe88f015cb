"""Landing a streaming source that is no Kafka topic: its rows become messages, which a spout can read by position.

Files, Delta tables or a rate generator cannot be asked for one row again, so a query of its own writes their rows into
`{topology}.replay.{spout}`. Spark's sink is at least once: a landing that is interrupted may land some rows twice.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from kafka_clients.client_settings import for_admin
from kafka_clients.librdkafka_bugs import forgettable
from spark_jobs.entries import OUT, Record, new_session, record_rows
from spark_jobs.errors import ComponentRefusedError, TopicsRefusedError
from spark_jobs.frames import FrameCodec, StreamFrame
from spark_jobs.kafka_options import catalogue_of, sink_options
from spark_jobs.results import check_fields, spark_fields
from spark_jobs.spout_batch import is_whole_value, only_stream
from tuple_tree.manifest import Manifest, SpoutManifest

logger = logging.getLogger("spark_jobs.spout")

PARTITIONS: Final = 4
"""Of a replay topic that is created here."""

_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05


def replay_topic(topology: str, spout: str) -> str:
    """Where the rows of a source land that cannot be read by position."""
    return f"{topology}.replay.{spout}"


@dataclass(frozen=True)
class Land:
    """Makes messages of rows, one of each, in runs for the partitions in turn; for `mapInArrow`."""

    topic: str
    partitions: int
    frame: StreamFrame

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Encodes batches of rows; a row that cannot be encoded is a message without a value, and so a dead letter."""
        codec, turn = FrameCodec(self.frame), int.from_bytes(new_session()[:4])
        for batch in batches:
            run = -(-batch.num_rows // self.partitions)
            records: list[Record] = [
                (self.topic, (turn + row // run) % self.partitions, None, value, ())
                for row, value in enumerate(self._values(codec, batch))
            ]
            turn += 1
            yield record_rows(records)

    def _values(self, codec: FrameCodec, batch: Any) -> list[bytes | None]:
        if is_whole_value(self.frame.stream):
            values: list[bytes | None] = batch.column(0).cast(pa.binary()).to_pylist()
            return values
        try:
            return [*codec.payloads(codec.pack(batch))]
        except Exception:  # noqa: BLE001 - of Arrow and fastavro; which row it is, is found out one by one
            if batch.num_rows == 1:
                return [None]
            return [value for row in range(batch.num_rows) for value in self._values(codec, batch.slice(row, 1))]


class Landing:
    """The query that writes the rows of a streaming DataFrame with the fields of the spout's stream into a topic.

    Its checkpoint lies inside the spout's.
    """

    def __init__(
        self, rows: DataFrame, manifest: Manifest, spout: SpoutManifest, kafka: Mapping[str, Any], checkpoint: str
    ) -> None:
        if not rows.isStreaming:
            raise ComponentRefusedError(
                f"the source of spout {spout.name!r} is a DataFrame that does not stream: make it with spark.readStream"
            )
        frame = StreamFrame(only_stream(spout))
        types = spark_fields(frame)
        check_fields(rows.schema, frame.stream.name, types, f"the source of spout {spout.name!r}")
        self.topic = replay_topic(manifest.topology, spout.name)
        self.query: StreamingQuery | None = None
        land = Land(self.topic, _created(kafka, self.topic), frame)
        chosen = [F.col(f"`{name}`").cast(kind).alias(name) for name, kind in types.items()]
        self._writer = (
            rows.select(*chosen)
            .mapInArrow(land, OUT)
            .writeStream.format("kafka")
            .queryName(f"{manifest.topology}.{spout.name}.landing")
            .options(**sink_options(kafka))
            .option("checkpointLocation", f"{checkpoint.rstrip('/')}/landing")
        )

    def start(self, trigger: Mapping[str, Any] | None) -> None:
        """Starts landing; with a trigger that ends by itself, waits until all has landed."""
        if trigger:
            self._writer = self._writer.trigger(**trigger)
        self.query = self._writer.start()
        if trigger and {"availableNow", "once"} & trigger.keys():
            self.query.awaitTermination()

    def check(self) -> None:
        """Raises what ended the landing, if it failed."""
        error = self.query.exception() if self.query is not None else None
        if error is not None:
            raise error

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()


def _created(kafka: Mapping[str, Any], topic: str) -> int:
    """Creates the topic if it does not exist, and returns how many partitions it has."""
    with catalogue_of(kafka) as catalogue:
        if (existing := catalogue.topics().get(topic)) is not None:
            return existing
        admin = forgettable(AdminClient)({**for_admin(kafka), "log_level": 2})
        created = admin.create_topics([NewTopic(topic, PARTITIONS, -1, config={"cleanup.policy": "delete"})])[topic]
        try:
            created.result(_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                message = f"topic {topic} cannot be created: {error.args[0]}; create it beforehand"
                raise TopicsRefusedError(message) from error
        end, pause = time.monotonic() + _SECONDS, threading.Event()
        while topic not in (topics := catalogue.topics()):
            if time.monotonic() > end:
                raise TopicsRefusedError(
                    f"topic {topic} was created, but is not visible after {_SECONDS:g} s: start again"
                )
            pause.wait(_LOOK_SECONDS)
    logger.info("created topic %s with %d partitions", topic, topics[topic])
    return topics[topic]
