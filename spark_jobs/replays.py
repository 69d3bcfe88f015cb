"""Delivering messages again: read from the source by position, and written under the next attempt.

A round reads one range a partition, from the first position that is wanted to the last one within reach, and joins it
with the wanted ones. So the read is Spark's own, and it is bounded however far apart the positions lie.
"""

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ack_batches import AckLanes
from spark_jobs.plans import kept
from spark_jobs.spout_batch import ATTEMPT, GIVEN_UP, Found, SpoutBatch
from spark_jobs.spout_offsets import Range
from tuple_tree.source_positions import Replay

logger = logging.getLogger("spark_jobs.progress")

REACH: Final = 50_000
"""Offsets of a partition that a round reads, at most."""

MOST: Final = 10_000
"""Messages of a round, at most."""

EXHAUSTED: Final = "retries-exhausted"
"""The reason of a dead letter whose last attempt failed."""

_WANTED: Final = (
    f"array<struct<wanted_partition: int, wanted_offset: bigint, {ATTEMPT}: int, "
    f"{GIVEN_UP}: struct<reason: string, detail: string>>>"
)


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads ranges of the source topic by position.

    Attributes:
        topic: of the source.
        options: of Spark's Kafka source.
    """

    spark: SparkSession
    topic: str
    options: Mapping[str, str]

    def read(self, ranges: Sequence[Range]) -> DataFrame:
        """The messages of ranges, one for each partition; what is no longer there is left out."""
        return (
            self.spark.read.format("kafka")
            .options(
                **{
                    **self.options,
                    "includeHeaders": "true",
                    "failOnDataLoss": "false",
                    "assign": json.dumps({self.topic: [each.partition for each in ranges]}),
                    "startingOffsets": json.dumps({self.topic: {str(each.partition): each.start for each in ranges}}),
                    "endingOffsets": json.dumps({self.topic: {str(each.partition): each.end for each in ranges}}),
                }
            )
            .load()
        )

    def offsets(self, ranges: Sequence[Range]) -> list[Found]:
        """Which offsets there are in ranges."""
        wanted = [each for each in ranges if each.start < each.end]
        if not wanted:
            return []
        first, last = F.min("offset"), F.max("offset")
        gaps = F.count(F.lit(1)) != last - first + 1
        listed = F.when(gaps, F.sort_array(F.collect_list("offset")))
        rows = (
            self.read(wanted)
            .groupBy("partition")
            .agg(first.alias("first"), last.alias("last"), listed.alias("offsets"))
            .collect()
        )
        return [
            Found(row["partition"], row["offsets"] or range(row["first"], row["last"] + 1), dead=(), tuples=0)
            for row in rows
        ]


class Replays:
    """Delivers positions again, round by round; for one thread.

    A process is a writer of its own, with a random session: which positions come in which round depends on time.

    Args:
        batch: of the spout.
        reader: of its source.
        retry_limit: attempts after the first one.

    Attributes:
        on_written: called with what a round has written.
    """

    def __init__(self, batch: SpoutBatch, reader: SourceReader, retry_limit: int) -> None:
        self.on_written: Callable[[Sequence[Found]], object] = lambda _found: None
        self._batch = batch
        self._reader = reader
        self._retry_limit = retry_limit
        self._lanes = AckLanes(batch.outputs.manifest, f"{batch.outputs.component}/replays", uuid.uuid4().bytes)
        self._round = 0

    def run(self, wanted: Sequence[Replay]) -> list[Replay]:
        """Delivers positions again, or writes their dead letters where no attempt is left.

        Returns:
            Those that need no outcome: they became dead letters, or are no longer there.
        """
        if not self._round:
            self._batch.open(self._reader.spark, self._lanes)
        self._round += 1
        with kept(self._batch.prepared(self._records(wanted))) as prepared:
            found = self._batch.found(prepared)
            self._batch.write(prepared, self._lanes, self._round, found)
        self.on_written(found)
        alive = {(each.partition, offset) for each in found for offset in each.offsets}
        dead = {(each.partition, offset) for each in found for offset in each.dead}
        finished = [each for each in wanted if (at := (each.partition, each.offset)) in dead or at not in alive]
        logger.info(
            "%s: replay round %d, %d delivered again, %d dead letters, %d no longer there",
            self._batch.outputs.component,
            self._round,
            len(wanted) - len(finished),
            len(dead),
            len(finished) - len(dead),
        )
        return finished

    def _records(self, wanted: Sequence[Replay]) -> DataFrame:
        ends: dict[int, list[int]] = {}
        for each in wanted:
            ends.setdefault(each.partition, []).append(each.offset)
        ranges = [Range(partition, min(offsets), max(offsets) + 1) for partition, offsets in ends.items()]
        told = json.dumps(
            [
                {
                    "wanted_partition": each.partition,
                    "wanted_offset": each.offset,
                    ATTEMPT: each.attempt,
                    GIVEN_UP: self._given_up(each),
                }
                for each in wanted
            ]
        )
        spark = self._reader.spark
        listed = spark.range(1).select(F.inline(F.from_json(F.lit(told), _WANTED)))
        at = (F.col("partition") == F.col("wanted_partition")) & (F.col("offset") == F.col("wanted_offset"))
        return self._reader.read(ranges).join(F.broadcast(listed), at)

    def _given_up(self, replay: Replay) -> dict[str, str] | None:
        if replay.attempt <= self._retry_limit:
            return None
        said = f": {replay.message}" if replay.message else ""
        detail = f"all {self._retry_limit + 1} attempts failed, the last one with reason {replay.reason.word}{said}"
        return {"reason": EXHAUSTED, "detail": detail[:500]}
