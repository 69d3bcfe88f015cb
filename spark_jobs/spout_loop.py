"""The threads beside a spout's query: one reads outcomes and commits the acked prefix, one replays what failed."""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.delivering import Deliveries, ReplayRequest, SourceRange
from spark_jobs.entries import dead_letter
from spark_jobs.errors import SparkJobError, TopicsRefusedError
from spark_jobs.outcomes import Outcomes
from spark_jobs.spout_batch import SpoutBatch
from spark_jobs.spout_offsets import Range, SpoutOffsets
from tuple_tree.errors import VersionError, WireError
from tuple_tree.messages import FailReason, decode_notice_batch
from tuple_tree.source_positions import Offsets, Replays

logger = logging.getLogger("spark_jobs.spout")

_POLL_SECONDS: Final = 0.05
_COMMIT_SECONDS: Final = 1.0
_SILENCE_SECONDS: Final = 30.0

_REACH: Final = 50_000
"""Offsets of a partition that a round reads, at most."""

_MOST: Final = 10_000
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


class SpoutLoop:
    """A thread that owns the spout's consumer, and one for replays, which may take as long as a micro-batch.

    `error` is why the loop cannot go on, `on_error` is called then; what `check` raises ends the loop; `on_replayed` is
    called with what a round of replays has written.
    """

    def __init__(
        self, batch: SpoutBatch, offsets: SpoutOffsets, outcomes: Outcomes, reader: SourceReader, retry_limit: int
    ) -> None:
        self._batch = batch
        self._offsets = offsets
        self._outcomes = outcomes
        self._reader = reader
        self._retry_limit = retry_limit
        self._deliveries = Deliveries(reader.spark.sparkContext)
        self._rounds = 0
        self._commit_at = 0.0
        self._stopping = threading.Event()
        self._draining = threading.Event()
        name = f"{batch.outputs.topology}.{batch.outputs.component}"
        self._thread = threading.Thread(target=self._run, name=f"outcomes of {name}", daemon=True)
        self._replaying = threading.Thread(target=self._replay, name=f"replays of {name}", daemon=True)
        self.error: BaseException | None = None
        self.on_error: Callable[[], object] = lambda: None
        self.on_replayed: Callable[[Sequence[SourceRange]], object] = lambda _ranges: None
        self.check: Callable[[], object] = lambda: None

    def catch_up(self, mark: int, end: int) -> None:
        """Reads the notices up to an end; before `start`."""
        self._offsets.read_from(mark)
        last = time.monotonic()
        while self._offsets.mark < end:
            if self._read(_POLL_SECONDS):
                last = time.monotonic()
            elif time.monotonic() > last + _SILENCE_SECONDS:
                raise TopicsRefusedError(
                    f"the notices before offset {end} could not be read within {_SILENCE_SECONDS:g} s, only those "
                    f"before {self._offsets.mark}: check the brokers"
                )

    def start(self) -> None:
        self._thread.start()
        self._replaying.start()

    @property
    def mark(self) -> int:
        """The offset before which the notices were read."""
        return self._offsets.mark

    def drain(self) -> None:
        """Lets the loop end as soon as nothing is open."""
        self._draining.set()

    def stop(self) -> None:
        """Ends the loop, commits, and closes the consumer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        elif self._thread.ident is None:
            self._offsets.close()

    def ended(self, seconds: float | None) -> bool:
        """Waits for the end of the loop; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._is_over:
                self.check()
                self._read(_POLL_SECONDS)
                now = time.monotonic()
                self._outcomes.tick(now)
                if now >= self._commit_at:
                    self._commit_at = now + _COMMIT_SECONDS
                    self._offsets.commit(self._outcomes.prefixes(self._offsets.mark))
            # What is being delivered again has to be known before the last commit.
            self._replaying.join()
            self._offsets.commit(self._outcomes.prefixes(self._offsets.mark))
        except BaseException as error:  # whatever it is, the query must not go on without us
            logger.exception("the loop of the outcomes cannot go on")
            self._fail(error)
        finally:
            self._offsets.close()

    def _replay(self) -> None:
        try:
            while not self._is_over:
                if due := self._outcomes.take_due(_MOST, _REACH, _POLL_SECONDS):
                    for partition, offsets in self._deliver_again(due):
                        self._outcomes.done(partition, offsets)
        except BaseException as error:  # as above
            logger.exception("replays cannot go on")
            self._fail(error)

    def _deliver_again(self, replays: Sequence[Replays]) -> list[tuple[int, Offsets]]:
        """Delivers positions again, or writes their dead letters where no attempt is left.

        Returns those that need no outcome, by partition: they became dead letters, or are no longer there.
        """
        self._rounds += 1
        ranges = [Range(each.partition, int(each.offsets[0]), int(each.offsets[-1]) + 1) for each in replays]
        wanted = {each.partition: ReplayRequest(each.offsets, each.attempts, self._given_up(each)) for each in replays}
        written = self._batch.write(self._reader.read(ranges), self._deliveries, wanted)
        self.on_replayed(written)
        alive = {each.partition: np.setdiff1d(each.offsets, each.dead) for each in written}
        finished = [(each.partition, np.setdiff1d(each.offsets, alive.get(each.partition, _NONE))) for each in replays]
        dead, ended = sum(len(each.dead) for each in written), sum(len(offsets) for _, offsets in finished)
        logging.getLogger("spark_jobs.progress").info(
            "%s: replay round %d, %d delivered again, %d dead letters, %d no longer there",
            self._batch.outputs.component,
            self._rounds,
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

    @property
    def _is_over(self) -> bool:
        is_drained = self._draining.is_set() and self._outcomes.idle
        return self._stopping.is_set() or is_drained or self.error is not None

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.on_error()

    def _read(self, seconds: float) -> bool:
        messages = self._offsets.poll(seconds)
        for message in messages:
            value = message.value()
            value = value.encode() if isinstance(value, str) else value
            try:
                self._outcomes.read(decode_notice_batch(value))
            except VersionError as error:
                where = f"{message.topic()}[{message.partition()}] offset {message.offset()}"
                raise SparkJobError(f"{where} cannot be read: {error.detail}") from error
            except WireError as error:
                # Its trees are given up as lost in the end.
                place = message.topic() or "", message.partition() or 0, message.offset() or 0
                logger.warning("unreadable notice at offset %d of %s: %s", place[2], place[0], error)
                outputs, by = self._batch.outputs, f"{self._batch.outputs.component}/{self._batch.spout.task}"
                self._batch.send(
                    [dead_letter(outputs.topology, place, reason=error.reason, detail=error.detail, by=by, value=value)]
                )
        return bool(messages)
