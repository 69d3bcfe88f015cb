"""One task of a bolt, without I/O: records in, tuples and ack batches out."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from spout_sdk.api.context import TaskContext
from spout_sdk.api.topology import Topology
from spout_sdk.bolts.head_task import HeadTask
from spout_sdk.bolts.pause import Pause
from spout_sdk.bolts.step import Step
from spout_sdk.bolts.tuple_reader import TupleReader
from spout_sdk.bolts.unread_record import UnreadRecord
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import UnsupportedVersionError
from spout_sdk.records import Record, TaskEnvironment
from spout_sdk.statistics.stats import NO_INPUT, MostFailed
from tuple_tree.commit_metadata import DONE, LARGEST_METADATA, Commit, read_commit_metadata
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.names import tuples_topic

_MOST_OPEN: Final = 1_000_000  # tuples of open records of a task; they take some hundred megabytes


class BoltTask(HeadTask):
    """Executes the records of one partition of a bolt's inbox, and the tuples of its chained bolts.

    In order: `open_session`, wait until that is delivered, `prepare`, then `read` for each record, `run` and `tick` now
    and then, `flush` when the input is idle, `cleanup` at the end. `committable` may be committed at any time.
    """

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        manifest = topology.manifest
        self.inputs = InputOffsets()
        super().__init__(topology, component, task, environment, self.inputs)
        self.first = Step(topology, component, task, environment, self.outbox, self.inputs)
        self.steps.append(self.first)
        self._add_chained(self.first.plans, has_columns=self.first.operator.takes_columns)
        self.unread = UnreadRecord(
            *(manifest, component, task, self.first.settlement, environment.published, environment.clock)
        )
        self._reader = TupleReader(manifest, component, self.inputs, self.unread.reject)
        self._inbox = f"{tuples_topic(manifest.topology, component)}[{task}]"

    @property
    def bolt(self) -> Any:
        """The user's instance."""
        return self.first.bolt

    @property
    def context(self) -> TaskContext:
        return self.first.context

    def read(self, record: Record) -> int:
        """Reads a record, and returns how many of its tuples are not done; these wait until `run`."""
        read = (self._reader.read_columns if self.first.operator.takes_columns else self._reader.read)(record)
        return 0 if read is None else self.first.add(read)

    def tick(self, now: float) -> None:
        """Flushes data that has lingered, expires inputs, and executes a tick tuple if one is due."""
        self.unread.tick(now)
        super().tick(now)

    def note_done(self) -> None:
        """Sends everything that is buffered; when it is delivered, the inputs that are done by now can be committed."""
        self.flush()
        self.outbox.acks.when_delivered(partial(self.inputs.tuples_delivered, self.inputs.note_tuples()))

    def commit(self, room: int = LARGEST_METADATA, *, in_transaction: bool = False) -> Commit | None:
        """Returns the next commit: inputs whose acks are delivered, or in a transaction all inputs that are done.

        None before the first record. `room` is the largest size of its metadata, in bytes.
        """
        done = self.inputs.settled() if in_transaction else self.inputs.delivered()
        return None if done is None else Commit.of(done, most=room)

    def commits(self, room: int, *, in_transaction: bool) -> Mapping[Any, Commit]:
        """As of any task; none with `at_most_once`, which commits records before they are executed."""
        manifest = self.topology.manifest
        commit = self.commit(room, in_transaction=in_transaction) if in_transaction or manifest.acking else None
        return {} if commit is None else {(tuples_topic(manifest.topology, self._component), self._task): commit}

    @property
    def progress_key(self) -> tuple[int, int, int] | None:
        committable = self.committable
        return None if committable is None else (committable, self.inputs.last_started, self.open_inputs)

    def resume(self, offset: int, metadata: str | None) -> None:
        """Continues from a committed offset and its metadata, before the first record is read.

        Raises `UnsupportedVersionError` if the metadata cannot be read.
        """
        if offset < 0:
            return  # nothing is committed
        try:
            texts = read_commit_metadata(offset, metadata) or {}
            self.inputs.continue_from(DoneSet.read(offset, texts.get(DONE, "")))
        except CommitError as error:
            raise UnsupportedVersionError(f"{self._inbox}: {error}") from error

    @property
    def is_held_up(self) -> bool:
        return self.first.operator.is_busy or super().is_held_up

    @property
    def is_held(self) -> bool:
        """Whether nothing after the last record may be executed, because that cannot be read and is not decided yet."""
        return self.unread.held is not None

    @property
    def is_paused(self) -> bool:
        """Whether the task executes nothing now, because calls raise, or a record waits for another version."""
        return self.is_held or super().is_paused

    @property
    def pause(self) -> Pause | None:
        """The pause of the task, or of a bolt whose calls raise; None without one. Any thread may read it."""
        return self.unread.pause or super().pause

    @property
    def committable(self) -> int | None:
        """The first input offset that is not done; None before the first record."""
        return self.inputs.committable

    @property
    def is_full(self) -> bool:
        """Whether reading must pause, because too many inputs are open."""
        return self.inputs.open_tuples >= _MOST_OPEN

    @property
    def open_inputs(self) -> int:
        return self.inputs.open_count

    def most_failed(self, now: float) -> MostFailed:
        """The open tuple of the bolt that has failed most often; any thread may call it."""
        return self.first.settlement.retries.most_failed(now)

    def is_open(self, offset: int) -> bool:
        """Whether the record at an offset was not read, or is not settled; any thread may call it."""
        return offset > self.inputs.last_started or self.inputs.is_open(offset)

    def oldest_input(self, now: float) -> tuple[float, str]:
        """The input that is open for longest: for how many seconds, to within one, and its position."""
        oldest = self.inputs.oldest_open
        return NO_INPUT if oldest is None else (self.inputs.open_seconds(now), f"{self._inbox} offset {oldest}")
