"""Landing a streaming source that is no Kafka topic: its rows become messages, which a spout can read by position.

Files, Delta tables or a rate generator cannot be asked for one row again, so their rows are written into a topic of our
own, `{topology}.replay.{spout}`, by a query of its own with its own checkpoint. From there on it is a Kafka source like
any other. Spark's sink is at least once, so a landing that is interrupted may land some rows twice.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.errors import ComponentRefusedError, TopicsRefusedError
from spark_jobs.ids import unsigned_mod
from spark_jobs.kafka_options import check_topics, sink_options
from spark_jobs.outputs import outputs_of
from spark_jobs.payloads import encoded, problem_of
from spark_jobs.results import check_fields
from spark_jobs.spout_batch import simple_type
from tuple_tree.client_settings import for_admin
from tuple_tree.forgotten_clients import forgettable
from tuple_tree.manifest import Manifest

logger = logging.getLogger("spark_jobs.spout")

PARTITIONS: Final = 4
"""Of a replay topic that is made here."""

_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05


def replay_topic(topology: str, spout: str) -> str:
    """Where the rows of a source land that cannot be read by position."""
    return f"{topology}.replay.{spout}"


class Landing:
    """A source on its way into a topic.

    Args:
        rows: a streaming DataFrame with the fields of the spout's stream.
        manifest: of the topology.
        spout: its name.
        kafka: librdkafka properties.
        checkpoint: of the spout; the landing's own lies inside.

    Raises:
        ComponentRefusedError: if the DataFrame is no streaming one.
        TransformRefusedError: if it lacks a field, or has another type for it.
        TopicsRefusedError: if the topic cannot be made.
    """

    def __init__(
        self, rows: DataFrame, manifest: Manifest, spout: str, kafka: Mapping[str, Any], checkpoint: str
    ) -> None:
        if not rows.isStreaming:
            raise ComponentRefusedError(
                f"the source of spout {spout!r} is a DataFrame that does not stream: make it with spark.readStream"
            )
        outputs = outputs_of(rows.sparkSession, manifest, spout)
        schemas = [schema for schema, _ in outputs.streams]
        for each in schemas:
            check_fields(rows.schema, each.stream.name, each.types, f"the source of spout {spout!r}")
        self.topic = replay_topic(manifest.topology, spout)
        self.query: StreamingQuery | None = None
        self._name = f"{manifest.topology}.{spout}.landing"
        self._checkpoint = f"{checkpoint.rstrip('/')}/landing"
        self._sink = sink_options(kafka)
        partitions = _made(kafka, self.topic)
        schema = schemas[0]
        fields = [F.col(f"`{field.name}`").cast(field.dataType) for field in schema.fields]
        # A row that has no payload becomes a message without one, and so a dead letter.
        payload = fields[0].cast("binary") if simple_type(schema) else encoded(fields, schema)
        value = F.when(problem_of(fields, schema).isNull(), payload)
        self._landed = rows.select(value.alias("value")).select(
            unsigned_mod(F.xxhash64("value"), partitions).alias("partition"), "value"
        )

    def start(self, trigger: Mapping[str, Any] | None) -> None:
        """Starts landing; with a trigger that ends by itself, waits until all has landed."""
        writer = (
            self._landed.writeStream.format("kafka")
            .queryName(self._name)
            .options(**self._sink)
            .option("topic", self.topic)
            .option("checkpointLocation", self._checkpoint)
        )
        if trigger:
            writer = writer.trigger(**trigger)
        self.query = writer.start()
        if trigger and {"availableNow", "once"} & trigger.keys():
            self.query.awaitTermination()

    def check(self) -> None:
        """Raises what ended the landing, if it failed."""
        error = self.query.exception() if self.query is not None else None
        if error is not None:
            raise error

    def stop(self) -> None:
        """Stops landing."""
        if self.query is not None:
            self.query.stop()


def _made(kafka: Mapping[str, Any], topic: str) -> int:
    """Makes the topic if it is not there, and returns how many partitions it has."""
    # Says what is wrong with the settings, or that nobody answers.
    check_topics(kafka, {})
    admin = forgettable(AdminClient)({**for_admin(kafka), "log_level": 2})
    found = admin.list_topics(timeout=_SECONDS).topics
    if topic in found:
        return len(found[topic].partitions)
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS, -1, config={"cleanup.policy": "delete"})])[topic].result(
            _SECONDS
        )
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TopicsRefusedError(f"topic {topic} cannot be made: {error.args[0]}; make it beforehand") from error
    end, pause = time.monotonic() + _SECONDS, threading.Event()
    while topic not in admin.list_topics(timeout=_SECONDS).topics:
        if time.monotonic() > end:
            raise TopicsRefusedError(f"topic {topic} was made, but is not visible after {_SECONDS:g} s: start again")
        pause.wait(_LOOK_SECONDS)
    logger.info("made topic %s with %d partitions", topic, PARTITIONS)
    return PARTITIONS
