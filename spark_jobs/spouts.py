"""A spout as a Structured Streaming query, with a loop beside it for the outcomes.

New messages come through a query, whose checkpoint plans offsets before a micro-batch runs, and what it plans counts as
delivered. Its rate limit is static, so the query asks for half of `max_pending` at most and waits, inside
`foreachBatch`, until there is room for the batch. Replays cannot come through it, because a query without new messages
has no micro-batches; the loop reads them by position, with a consumer. See ADR 23, also for what a restart knows.

A source that is not a Kafka topic cannot be asked for one row again. So a query of its own lands its rows in the topic
`{topology}.replay.{spout}`. A landing that is interrupted may land some rows twice.
"""

import json
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, get_args

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kafka_clients.control_reader import ControlReader
from kafka_clients.repeated_lines import get_logger
from spark_jobs.checkpoint import claim_checkpoint, planned_offsets
from spark_jobs.components import HasManifest, Source, component_of, topics_of
from spark_jobs.delivering import Delivered, SpoutBatch, landed_as, only_stream
from spark_jobs.driver_stats import BatchResult, Tally
from spark_jobs.entries import ANY_PARTITION, KafkaSender, Send
from spark_jobs.errors import ComponentRefusedError, TopicsRefusedError
from spark_jobs.frames import FrameCodec
from spark_jobs.kafka_options import catalogue_of, check_topics, executor_settings, source_options, topic_id
from spark_jobs.outcome_writer import READER_SETTINGS, OutcomeWriter
from spark_jobs.outcomes import Outcomes
from spark_jobs.packages import check_session
from spark_jobs.running_query import BatchRunner, RunningQuery
from spark_jobs.source_reader import SourceReader
from spark_jobs.spout_loop import SpoutLoop
from spark_jobs.spout_offsets import SpoutOffsets
from spark_jobs.tasks import run_tasks
from spark_jobs.transform import stream_columns
from tuple_tree.components import SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, notices_topic
from tuple_tree.positions import MAX_ATTEMPTS
from tuple_tree.streams import SourceCodec, StreamDeclaration, source_stream

logger = get_logger("spark_jobs.spout")

DEFAULT_MAX_ROWS: Final = 200_000
_REPLAY_PARTITIONS: Final = 4
"""The partitions of a replay topic that this job creates."""
_CREATE_SECONDS: Final = 10.0


class RunningSpout(RunningQuery):
    """A spout that runs.

    With a trigger that ends by itself, such as `availableNow`, the spout ends when every tree has its outcome. After
    `stop`, trees stay open for the next start. `wait` also raises what ended the loop of the outcomes.

    Attributes:
        query: Spark's own handle.
        outcomes: what is open, and what became of the rest.
    """

    def __init__(
        self, runner: BatchRunner, query: StreamingQuery, kafka: Mapping[str, Any], loop: SpoutLoop, outcomes: Outcomes
    ) -> None:
        self._loop = loop
        self.outcomes = outcomes
        super().__init__(runner, query, kafka)

    def _stop(self) -> None:
        super()._stop()
        self._loop.stop()

    def _wait(self, seconds: float | None) -> bool:
        began = time.monotonic()
        try:
            if not super()._wait(seconds):
                return False
        except StreamingQueryException:
            self._loop.stop()
            if self._loop.error is None:
                raise
        if not self._loop.drain(None if seconds is None else max(0.0, began + seconds - time.monotonic())):
            return False
        if self._loop.error is not None:
            raise self._loop.error
        return True

    def _is_active(self) -> bool:
        return super()._is_active() or self._loop.is_running


def spout(
    spark: SparkSession,
    topology: Manifest | HasManifest,
    name: str,
    source: str | DataFrame | Source,
    *,
    kafka: Mapping[str, Any],
    checkpoint: str,
    max_rows: int = DEFAULT_MAX_ROWS,
    trigger: Mapping[str, Any] | None = None,
) -> RunningSpout:
    """Starts a spout that delivers each message of a source until it is acked.

    A message whose trees fail is read again and delivered as a new tree, as often as the `Source` says; then it becomes
    a dead letter. How far all is done is committed as the offset of the group `{topology}.{spout}` on the source topic,
    where a spout without a checkpoint goes on. At most `max_pending` trees, as the manifest says, are open at once.

    Args:
        spark: a session with the packages, see `spark_jobs.session`.
        topology: as built, or its manifest.
        name: of the spout, which has one stream; task 0 receives all outcomes.
        source: a topic, kept for longer than a tree may live; or any streaming DataFrame with the fields of the stream,
            whose rows land in the topic `{topology}.replay.{name}` first, which is made if it is not there; or a
            `Source` of one of these, with its settings.
        kafka: librdkafka properties; at least `bootstrap.servers`.
        checkpoint: directory that is this spout's own; on a cluster, on a file system that all its machines see.
        max_rows: of a micro-batch; half of `max_pending` if that is less.
        trigger: keyword arguments for Spark's `trigger`, such as `{"processingTime": "1 second"}`.

    Raises:
        ComponentRefusedError: if the topology has no such spout, or it cannot be run in this way.
        TopicsRefusedError: if topics are not there, or not as they have to be.
        TransformRefusedError: if the fields of the source are not those of the stream.
        CheckpointRefusedError: if the checkpoint belongs to something else.
        SparkJobError: if the session runs tasks speculatively.
    """
    manifest, component = component_of(topology, name, SpoutManifest)
    check_session(spark)
    given = source if isinstance(source, Source) else Source(source)
    _check_settings(name, given, max_rows)
    check_topics(kafka, topics_of(manifest, component))
    landing_writer: DataStreamWriter | None = None
    stream = only_stream(component)
    if isinstance(given.messages, str):
        topic, decoded_as = given.messages, source_stream(stream, given.codec)
    else:
        if given.fields is not None or given.codec is not None:
            raise ComponentRefusedError(
                f"fields and codec of spout {name!r} are for a topic: select the fields in the DataFrame"
            )
        topic, landing_writer = _landing(given.messages, manifest, component, kafka, checkpoint)
        decoded_as = landed_as(stream)
    if component.outcomes is not None:
        _check_outcomes(name, component.outcomes.topic, topic, kafka)
    read = {**source_options(kafka), "includeHeaders": "true", "failOnDataLoss": "false", **(given.options or {})}
    source_id = topic_id(kafka, topic)
    empty = spark.read.format("kafka").options(**read).option("subscribe", topic).load()
    batch = SpoutBatch(manifest, component, empty, given.fields, decoded_as, kafka, source_id)
    group = component_group(manifest.topology, name)
    offsets = SpoutOffsets(kafka, group, topic, (notices_topic(manifest.topology, name), 0))
    isolation = read["kafka.isolation.level"]
    readers = [SourceReader(kafka, topic, group, isolation)]
    landing: StreamingQuery | None = None
    try:
        bounds = offsets.bounds()
        room = component.max_pending // 2
        if room < len(bounds):
            raise ComponentRefusedError(
                f"max_spout_pending of {name!r} is {component.max_pending}, and its source has {len(bounds)} "
                f"partitions, and a micro-batch may read a message of each: set it to {2 * len(bounds)} or more"
            )
        owner = {"topology": manifest.topology, "component": name, "kind": "spout"}
        claim_checkpoint(spark, checkpoint, {**owner, "source": topic, "topic id": source_id})
        lost_after = (manifest.max_tree_age_ms + component.timeout_ms) / 1000
        target = component.outcomes
        outcomes = Outcomes(
            batch.roots, component.max_pending, given.retry_limit, lost_after, writes_outcomes=target is not None
        )
        writer = None
        if target is not None:
            readers.append(SourceReader({**kafka, **READER_SETTINGS}, topic, group, isolation))
            writer = OutcomeWriter(manifest, name, target, outcomes, readers[1], kafka)
        # A session of its own: settings of the user's queries must not change how replays are delivered.
        control = ControlReader(manifest.topology, name, kafka)
        loop = SpoutLoop(spark.newSession(), batch, offsets, outcomes, readers[0], control, writer)
        starts = loop.recover(bounds, planned_offsets(spark, checkpoint, topic), given.starting_offsets)
        most = min(max_rows, room)

        def run(records: DataFrame, _batch_id: int, _session: bytes) -> BatchResult:
            began = time.monotonic()
            delivered = outcomes.deliver(
                most,
                lambda: offsets.mark,
                lambda: runner.stopping.is_set() or loop.error is not None,
                lambda: batch.write(records),
            )
            if manifest.acking:
                outcomes.dead(delivered.letters)
            else:
                outcomes.done(delivered.positions)
            return _result(delivered, time.monotonic() - began)

        runner = BatchRunner(manifest.topology, component, run)
        runner.stats = lambda: spout_stats(runner.tally, outcomes, manifest.acking)
        runner.outstanding = partial(_outstanding, outcomes)
        if landing_writer is not None:
            landing = (landing_writer.trigger(**trigger) if trigger else landing_writer).start()
            if trigger and {"availableNow", "once"} & trigger.keys():
                # All has to land before the query sees what is available.
                landing.awaitTermination()
        new = {"subscribe": topic, "startingOffsets": json.dumps({topic: starts}), "maxOffsetsPerTrigger": str(most)}
        query = runner.start(spark, {**read, **new}, checkpoint, trigger)
    except BaseException:
        if landing is not None:
            landing.stop()
        offsets.close()
        for reader in readers:
            reader.close()
        raise
    loop.start(landing, query.stop, lambda written: runner.tally.add(_result(written)))
    return RunningSpout(runner, query, kafka, loop, outcomes)


def spout_stats(tally: Tally, outcomes: Outcomes, acking: bool) -> dict[str, Any]:
    """The totals of a spout, with the outcomes of its trees; without acking, what is emitted is acked."""
    stats = tally.stats()
    return {**stats, "executed": 0, **outcomes.stats(), **({} if acking else {"acked": stats["emitted"]})}


def _result(delivered: Delivered, seconds: float = 0.0) -> BatchResult:
    rows, dead = len(delivered.positions), len(delivered.dead)
    return BatchResult(rows, delivered.tuples, acks=0, failed=0, dead=dead, seconds=seconds, emitted=rows - dead)


def _outstanding(outcomes: Outcomes) -> str:
    """The part of the progress line about messages that are not done."""
    ended = f", {outcomes.ended:,} outcomes to be written" if outcomes.ended else ""
    return f"{outcomes.outstanding:,} outstanding, {outcomes.due:,} to be delivered again{ended}"


def _check_outcomes(spout: str, target: str, source: str, kafka: Mapping[str, Any]) -> None:
    """Checks the topic of the outcomes of a spout."""
    if target == source:
        raise ComponentRefusedError(
            f"spout {spout!r} reads topic {source} and writes its outcomes to it: name another topic"
        )
    with catalogue_of(kafka) as catalogue:
        if target not in catalogue.topics():
            raise TopicsRefusedError(
                f"topic {target}, to which {spout!r} writes its outcomes, does not exist: create it"
            )


def _check_settings(name: str, given: Source, max_rows: int) -> None:
    if not 0 <= given.retry_limit < MAX_ATTEMPTS:
        raise ComponentRefusedError(
            f"retry_limit of spout {name!r} is {given.retry_limit}: it must be at least 0 and below {MAX_ATTEMPTS}"
        )
    if given.starting_offsets not in ("earliest", "latest"):
        raise ComponentRefusedError(
            f"starting_offsets of {name!r} is {given.starting_offsets!r}: say earliest or latest"
        )
    if given.codec is not None and (given.fields is not None or given.codec not in get_args(SourceCodec)):
        allowed = " or ".join(get_args(SourceCodec))
        raise ComponentRefusedError(
            f"codec of spout {name!r} is {given.codec!r}: say {allowed}, or leave it out where fields= "
            "decode the messages"
        )
    if max_rows < 1:
        raise ComponentRefusedError(f"max_rows of spout {name!r} is {max_rows}: it must be at least 1")


def replay_topic(topology: str, spout: str) -> str:
    """Where the rows of a source land that cannot be read by position."""
    return f"{topology}.replay.{spout}"


def land(topic: str, stream: StreamDeclaration, send: Send, batches: Iterable[Any]) -> None:
    """Sends rows as messages of a topic; a row that cannot be encoded has no value, and so is a dead letter."""
    codec = FrameCodec(stream)
    for batch in batches:
        values: list[bytes | None]
        if landed_as(stream) is None:
            values = batch.column(0).cast(pa.binary()).to_pylist()
        else:
            fitting, errors = codec.pack(batch)
            payloads = iter(codec.payloads(fitting))
            values = [None if row in errors else next(payloads) for row in range(batch.num_rows)]
        send([(topic, ANY_PARTITION, None, value, ()) for value in values])


def _landing(
    rows: DataFrame, manifest: Manifest, spout: SpoutManifest, kafka: Mapping[str, Any], checkpoint: str
) -> tuple[str, DataStreamWriter]:
    """A topic, and the query that lands the rows in it; its checkpoint lies inside the spout's."""
    if not rows.isStreaming:
        raise ComponentRefusedError(
            f"the source of spout {spout.name!r} is a DataFrame that does not stream: make it with spark.readStream"
        )
    stream, topic = only_stream(spout), replay_topic(manifest.topology, spout.name)
    chosen = stream_columns(rows, stream, f"the source of spout {spout.name!r}")
    _create(kafka, topic)
    task = partial(land, topic, stream, KafkaSender(executor_settings(kafka)))
    name = f"{manifest.topology}.{spout.name}.landing"

    def write(batch: DataFrame, batch_id: int) -> None:
        run_tasks(batch, task, f"{name}, micro-batch {batch_id}")

    writer = chosen.writeStream.foreachBatch(write).queryName(name)
    return topic, writer.option("checkpointLocation", f"{checkpoint.rstrip('/')}/landing")


def _create(kafka: Mapping[str, Any], topic: str) -> None:
    """Creates a topic if it does not exist."""
    with catalogue_of(kafka) as catalogue:
        if topic in catalogue.topics():
            return
        new = NewTopic(topic, _REPLAY_PARTITIONS, -1, config={"cleanup.policy": "delete"})
        try:
            catalogue.admin.create_topics([new])[topic].result(_CREATE_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                message = f"topic {topic} cannot be created: {error.args[0]}; create it beforehand"
                raise TopicsRefusedError(message) from error
    logger.info("created topic %s with %d partitions", topic, _REPLAY_PARTITIONS)
