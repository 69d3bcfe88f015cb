"""Delivering messages again: read from the source by position, and written under the next attempt.

A round reads one range a partition, from the first position that is due to the last one within reach, and executors
select the messages. So the read is Spark's own, and it is bounded however far apart the positions lie.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.delivering import Deliveries, ReplayRequest, SourceRange
from spark_jobs.spout_batch import SpoutBatch
from spark_jobs.spout_offsets import Range
from tuple_tree.messages import FailReason
from tuple_tree.source_positions import Offsets, Replays

logger = logging.getLogger("spark_jobs.progress")

REACH: Final = 50_000
"""Offsets of a partition that a round reads, at most."""

MOST: Final = 10_000
"""Messages of a round, at most."""

_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads ranges of the source topic by position, with these options of Spark's Kafka source."""

    spark: SparkSession
    topic: str
    options: Mapping[str, str]

    def read(self, ranges: Sequence[Range]) -> DataFrame:
        """The messages of ranges, one for each partition, as far as they are still there."""
        options = {
            **self.options,
            "includeHeaders": "true",
            "failOnDataLoss": "false",
            "assign": json.dumps({self.topic: [each.partition for each in ranges]}),
            "startingOffsets": json.dumps({self.topic: {str(each.partition): each.start for each in ranges}}),
            "endingOffsets": json.dumps({self.topic: {str(each.partition): each.end for each in ranges}}),
        }
        return self.spark.read.format("kafka").options(**options).load()

    def offsets(self, ranges: Sequence[Range]) -> list[SourceRange]:
        """Which offsets there are in ranges."""
        filled = [each for each in ranges if each.start < each.end]
        if not filled:
            return []
        table = self.read(filled).select("partition", "offset").toArrow()
        partitions, offsets = table["partition"].to_numpy(), table["offset"].to_numpy()
        return [
            SourceRange(partition, np.sort(offsets[partitions == partition]), _NONE, 0)
            for partition in np.unique(partitions).tolist()
        ]


class ReplayRounds:
    """Delivers positions again, round by round; for one thread.

    Attributes:
        on_written: called with what a round has written.
    """

    def __init__(self, batch: SpoutBatch, reader: SourceReader, retry_limit: int) -> None:
        self.on_written: Callable[[Sequence[SourceRange]], object] = lambda _ranges: None
        self._batch = batch
        self._reader = reader
        self._retry_limit = retry_limit
        self._deliveries = Deliveries(reader.spark.sparkContext)
        self._round = 0

    def run(self, replays: Sequence[Replays]) -> list[tuple[int, Offsets]]:
        """Delivers positions again, or writes their dead letters where no attempt is left.

        Returns:
            Those that need no outcome, by partition: they became dead letters, or are no longer there.
        """
        self._round += 1
        ranges = [Range(each.partition, int(each.offsets[0]), int(each.offsets[-1]) + 1) for each in replays]
        wanted = {each.partition: ReplayRequest(each.offsets, each.attempts, self._given_up(each)) for each in replays}
        written = self._batch.write(self._reader.read(ranges), self._deliveries, wanted)
        self.on_written(written)
        alive = {each.partition: np.setdiff1d(each.offsets, each.dead) for each in written}
        finished = [(each.partition, np.setdiff1d(each.offsets, alive.get(each.partition, _NONE))) for each in replays]
        dead, ended = sum(len(each.dead) for each in written), sum(len(offsets) for _, offsets in finished)
        logger.info(
            "%s: replay round %d, %d delivered again, %d dead letters, %d no longer there",
            self._batch.outputs.component,
            self._round,
            sum(len(each.offsets) for each in replays) - ended,
            dead,
            ended - dead,
        )
        return finished

    def _given_up(self, replays: Replays) -> dict[int, str]:
        """Why positions are not delivered again, of those that have no attempt left."""
        spent = np.flatnonzero(replays.attempts > self._retry_limit)
        offsets, reasons = replays.offsets[spent].tolist(), replays.reasons[spent].tolist()
        return {
            offset: f"all {self._retry_limit + 1} attempts failed, the last one with reason {FailReason(reason).word}"
            + (f": {message}" if (message := replays.messages.get(offset)) else "")
            for offset, reason in zip(offsets, reasons, strict=True)
        }
