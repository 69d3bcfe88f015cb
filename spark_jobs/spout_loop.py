"""The threads beside a spout's query.

One reads notices and commits what is done, one delivers failed messages again, and a third one writes the records of
outcomes, if the spout has a topic for them.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_clients.control_reader import ControlReader
from kafka_clients.repeated_lines import get_logger
from spark_jobs.delivering import Delivered, SpoutBatch, together
from spark_jobs.entries import dead_letter
from spark_jobs.errors import SparkJobError, StoppedBetweenBatches, TopicsRefusedError
from spark_jobs.message_table import Prefix
from spark_jobs.outcome_writer import OutcomeWriter
from spark_jobs.outcomes import Outcomes, Replays
from spark_jobs.source_reader import Ranges, SourceReader
from spark_jobs.spout_offsets import NO_MARK, SpoutOffsets
from tuple_tree.control import ControlState
from tuple_tree.errors import VersionError, WireError
from tuple_tree.messages import decode_notice_batch, failed_by_of
from tuple_tree.names import component_group
from tuple_tree.positions import OFFSET_BITS

logger = get_logger("spark_jobs.spout")

_POLL_SECONDS: Final = 0.05
_COMMIT_SECONDS: Final = 1.0
_RECEIVE_TIMEOUT_SECONDS: Final = 30.0

_REACH: Final = 50_000
"""Offsets of a partition that a round of replays reads, at most."""

_MOST: Final = 10_000
"""Messages of a round, at most."""

_LAST_SECONDS: Final = 10.0
"""How long a stop waits until the outcomes of what has ended are written, at most."""

_GONE: Final = "the source has no message at this offset any more (retention or compaction)"


class SpoutLoop:
    """A thread that owns the spout's consumer, one for replays, which may take as long as a micro-batch, one to write.

    `error` is why the loop cannot continue. `writer` is None where outcomes are not written.
    """

    def __init__(
        self,
        spark: SparkSession,
        batch: SpoutBatch,
        offsets: SpoutOffsets,
        outcomes: Outcomes,
        reader: SourceReader,
        control: ControlReader,
        writer: OutcomeWriter | None = None,
    ) -> None:
        self._spark = spark
        self._batch = batch
        self._offsets = offsets
        self._outcomes = outcomes
        self._reader = reader
        self._control = control
        self._writer = writer
        outcomes.control = None
        self._rounds = 0
        self._stopping = threading.Event()
        reader.is_stopped = self._stopping.is_set
        self._draining = threading.Event()
        name = component_group(batch.manifest.topology, batch.spout.name)

        def thread(what: str, work: Callable[[], None]) -> threading.Thread:
            return threading.Thread(target=self._guarded, args=(work,), name=f"{what} of {name}", daemon=True)

        self._thread, self._replaying = thread("notices", self._run), thread("replays", self._replay)
        self._writing = None if writer is None else thread("outcomes", writer.run)
        self.error: BaseException | None = None

    def recover(self, bounds: Ranges, planned: Mapping[int, int], starting_offsets: str) -> dict[int, int]:
        """Opens what may have been delivered, and reads the outcomes since; before `start`.

        Returns where the query begins in a new checkpoint. Where nothing was planned, it begins at the group's offset.
        """
        committed = self._offsets.committed(bounds)
        starts: dict[int, int] = {}
        for number, there in bounds.items():
            prefix = committed.get(number)
            if prefix is None:
                # A partition that was added to a source in use is read from its beginning, as Spark does.
                late = starting_offsets == "latest" and not planned
                starts[number] = there.stop if late else there.start
            elif prefix.offset > there.stop:
                raise TopicsRefusedError(
                    f"partition {number} of {self._reader.topic} ends at {there.stop}, before the offset "
                    f"{prefix.offset} up to which it was acked: was it made anew? Then take a fresh checkpoint and "
                    "reset the group's offsets"
                )
            else:
                starts[number] = max(prefix.offset, there.start)
        acking = self._batch.manifest.acking
        end = self._offsets.notices_end() if acking else 0
        ahead = {number: range(start, planned.get(number, start)) for number, start in starts.items()}
        marks = [committed[number].mark if number in committed else NO_MARK for number, each in ahead.items() if each]
        # Where an operator has set the offsets back, earlier notices count no more.
        mark = end if not marks or NO_MARK in marks else min(marks)
        positions = self._reader.positions(ahead)
        self._outcomes.recovered(positions, mark)
        runs = [
            (number << OFFSET_BITS | begin, number << OFFSET_BITS | end)
            for number, prefix in committed.items()
            for begin, end in prefix.runs
        ]
        if runs:
            places = np.searchsorted(positions, runs)
            self._outcomes.done(np.concatenate([positions[begin:end] for begin, end in places.tolist()]))
        if acking:
            self._catch_up(mark, end)
        self._outcomes.forget_counts()
        first = starts.keys() - committed.keys()
        self._offsets.commit({number: Prefix(starts[number], mark) for number in first})
        return starts

    def start(
        self,
        landing: StreamingQuery | None,
        on_error: Callable[[], object],
        on_replayed: Callable[[Delivered], object],
    ) -> None:
        """Starts the threads. The landing ends with the loop, and its error ends both.

        `on_error` is called when the loop cannot continue, `on_replayed` with what a round of replays has written.
        """
        self._landing, self._on_error, self._on_replayed = landing, on_error, on_replayed
        self._thread.start()
        self._replaying.start()
        if self._writing is not None:
            self._writing.start()

    def drain(self, seconds: float | None) -> bool:
        """Lets the loop end as soon as nothing is open, and waits for that; returns whether it has ended."""
        self._draining.set()
        self._thread.join(seconds)
        return not self.is_running

    def stop(self) -> None:
        """Writes the outcomes of what has ended, commits, and ends the loop and the landing."""
        self._stopping.set()
        self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _catch_up(self, mark: int, end: int) -> None:
        """Reads the notices up to an end."""
        self._offsets.read_from(mark)
        last = time.monotonic()
        while self._offsets.mark < end:
            if self._read():
                last = time.monotonic()
            elif time.monotonic() > last + _RECEIVE_TIMEOUT_SECONDS:
                raise TopicsRefusedError(
                    f"the notices before offset {end} could not be read within {_RECEIVE_TIMEOUT_SECONDS:g} s, only "
                    f"those before {self._offsets.mark}: check the brokers"
                )

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # whatever it is, the query must not continue without us
            logger.exception("%s cannot continue", threading.current_thread().name)
            self.error = self.error or error
            self._on_error()

    def _run(self) -> None:
        commit_at = 0.0
        try:
            while not self._is_over:
                if self._landing is not None and (error := self._landing.exception()):
                    raise error
                self._read()
                self._outcomes.tick()
                self._control.look(now := time.monotonic())
                self._follow(self._control.state)
                if now >= commit_at:
                    commit_at = now + _COMMIT_SECONDS
                    self._commit()
            # The replays that run have to end before the last commit, which includes them.
            self._replaying.join()
            self._finish_writing()
            self._outcomes.control = "stopped"
            self._commit()
        finally:
            self._finish_writing()
            self._offsets.close()
            self._control.close()
            if self._landing is not None:
                self._landing.stop()

    def _follow(self, state: ControlState | None) -> None:
        """Takes over the requested state; no micro-batch begins while a commit says that no more was emitted."""
        is_begin = state == "running" and self._outcomes.control != "running"
        if not is_begin or self._offsets.commit(self._outcomes.prefixes(self._offsets.mark)):
            self._outcomes.control = state

    def _commit(self) -> None:
        self._offsets.commit(self._outcomes.prefixes(self._offsets.mark), self._outcomes.emitted_to)

    def _finish_writing(self) -> None:
        if self._writer is not None and self._writing is not None:
            self._writer.finish(_LAST_SECONDS)
            self._writing.join()

    def _replay(self) -> None:
        try:
            while not self._is_over:
                if replays := self._outcomes.take_due(_MOST, _REACH, _POLL_SECONDS):
                    self._deliver_again(replays)
        except StoppedBetweenBatches:
            pass  # what was not delivered again stays open, for the next start
        finally:
            self._reader.close()

    def _deliver_again(self, replays: Replays) -> None:
        """Delivers messages again, or writes their dead letters where no attempt is left; others are gone."""
        self._rounds += 1
        several: list[Delivered] = []
        self._reader.read(replays, lambda table: several.append(self._batch.replay(self._spark.createDataFrame(table))))
        written = together(several)
        self._on_replayed(written)
        alive = np.setdiff1d(written.positions, written.dead)
        finished = np.setdiff1d(replays.positions, alive)
        get_logger("spark_jobs.progress").info(
            "%s: replay round %d, %d delivered again, %d dead letters, %d no longer there",
            self._batch.spout.name,
            self._rounds,
            len(alive),
            len(written.dead),
            len(finished) - len(written.dead),
        )
        why = written.letters
        for position in finished.tolist():
            given_up = replays.given_up.get(position)
            if position not in why:
                why[position] = WireError("gone", f"{_GONE}; {given_up}" if given_up else _GONE)
            elif given_up:
                why[position] = WireError("retries-exhausted", given_up)
        self._outcomes.dead(why)

    @property
    def _is_over(self) -> bool:
        is_drained = self._draining.is_set() and self._outcomes.idle
        return self._stopping.is_set() or is_drained or self.error is not None

    def _read(self) -> bool:
        """Reads notices, and returns whether there were any."""
        messages = self._offsets.poll(_POLL_SECONDS)
        for message in messages:
            value = message.value()
            value = value.encode() if isinstance(value, str) else value
            place = topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            try:
                batch = decode_notice_batch(value)
                self._outcomes.read(batch, failed_by_of(dict(message.headers() or ()), len(batch.failed_roots)))
            except VersionError as error:
                raise SparkJobError(f"{topic}[{partition}] offset {offset} cannot be read: {error.detail}") from error
            except WireError as error:
                # Its trees are given up as lost in the end.
                logger.warning("unreadable notice at offset %d of %s: %s", offset, topic, error)
                topology, by = self._batch.manifest.topology, f"{self._batch.spout.name}/0"
                self._batch.send([dead_letter(topology, by, place, error, value=value)])
        return bool(messages)
