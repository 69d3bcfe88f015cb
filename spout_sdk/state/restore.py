"""Restores the states of tasks: reads their partitions of the changelog into stores."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from confluent_kafka import Message

from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import BrokerError, BrokerUnreachableError, TopicsError
from kafka_clients.log_reader import LogReader, Place
from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.api.topology import Topology
from spout_sdk.errors import StateError
from spout_sdk.state.rocks_store import RocksStore, StoreLockedError, store_path
from spout_sdk.state.source_topics import check_source_topics
from spout_sdk.state.stores import MemoryStore, Store
from tuple_tree.errors import WireError
from tuple_tree.names import component_group, state_topic, tuples_topic
from tuple_tree.state_records import ABOUT_KEY, About

logger = get_logger("spout_sdk.state")

LOG_SECONDS: Final = 5.0
"""Seconds between two log lines about the progress of a restore."""
_OTHER: Final = ".other"  # suffix of the second directory of a task
_POLL_SECONDS: Final = 0.1
_BATCH: Final = 10_000
_RECEIVE_TIMEOUT_SECONDS: Final = 30.0
_TRANSACTION_SECONDS: Final = 1_000.0  # a broker ends a transaction after 15 minutes at the latest


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """The progress of a restore.

    Attributes:
        tasks: the tasks whose states are restored.
        bytes: size of their keys and values.
        seconds: time since the restore began.
        left: number of offsets that are not read yet; a compacted partition has fewer records than offsets.
        total: number of offsets to read when the restore began.
    """

    tasks: tuple[int, ...]
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    left: int = 0
    total: int = 0

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0


OnProgress = Callable[[RestoreProgress], None]


class Restorer:
    """Restores the states of a bolt's tasks in a process; for one thread.

    Args:
        directory: directory of the stores of all topologies; None for stores in memory.
        on_progress: called several times a second while a changelog is read.
    """

    def __init__(
        self,
        topology: Topology,
        bolt: str,
        kafka: Mapping[str, Any],
        directory: Path | None = None,
        on_progress: OnProgress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        manifest = topology.manifest
        self._topology, self._bolt, self._kafka = topology, bolt, kafka
        self._directory, self._clock = directory, clock
        self._on_progress = on_progress or (lambda _progress: None)
        self._group = component_group(manifest.topology, bolt)
        self._inbox = tuples_topic(manifest.topology, bolt)
        self.topic = state_topic(manifest.topology, bolt)
        self._about: About | None = None
        self._topic_id: str | None = None
        self._ends: LogReader | None = None

    @property
    def about(self) -> About:
        """The description of the changelog: each partition has its `to_json` as the record `ABOUT_KEY`.

        If a partition lacks the record, the first transaction of its task must write it.
        """
        if self._about is None:
            self._about = About.of(self._topology.manifest, self._bolt, self._source_ids())
        return self._about

    def open(self, task: int) -> Store:
        """Opens a store for a task: in memory, or on disk with the content that an earlier process has left.

        If another process has the directory open, the store is in a second directory. Raises `StateError` if that is
        open as well, or if RocksDB is not installed.
        """
        if self._directory is None:
            return MemoryStore()
        if self._topic_id is None:
            self._topic_id = self._catalogue().topic_id(self.topic)
            if self._topic_id is None:
                raise TopicsError.missing(self.topic)
        path = store_path(self._directory, self._topology.name, self._bolt, task)
        try:
            return RocksStore(path, f"{self.topic}[{task}]", self._topic_id)
        except StoreLockedError as error:
            # A process that hangs has lost the task, and has the store open: this process must not fail because of it.
            other = path.with_name(f"{task}{_OTHER}")
            logger.warning("%s. Until then the store is at %s", error, other, extra=EACH)
            return RocksStore(other, f"{self.topic}[{task}]", self._topic_id)

    def restore(self, stores: Mapping[int, Store]) -> None:
        """Reads the records that the stores lack, up to the ends of their partitions.

        It waits for open transactions of earlier owners of the tasks, until they are committed or the broker aborts
        them. A store that is restored again reads only new records.

        Args:
            stores: task → its store.

        Raises:
            StateError: if the changelog belongs to another state, or is incomplete.
            TopicsError: if positions in it belong to other messages now; see `check_source_topics`.
            BrokerError: if it cannot be read.
        """
        if not stores:
            return
        with self._reader() as reader:
            # Committed offsets before ends: the transactions that committed these offsets are then before the ends.
            committed = reader.committed([(self._inbox, task) for task in stores])
            ends = self._watermarks(stores)
            # This request finds the leaders of the partitions; otherwise they are found a second after the assignment.
            reader.offset_ranges([(self.topic, task) for task in stores])
            for task, store in stores.items():
                self._check_position(task, store, ends[task])
            run = _Run(self.topic, stores, {task: each.stop for task, each in ends.items()}, self._clock)
            run.read(reader, self._on_progress)
        for task, store in stores.items():
            self._check_about(task, store, committed.get((self._inbox, task), 0))
        run.log_end()

    def ends(self, tasks: Iterable[int]) -> dict[int, int]:
        """Task → the offset after the last record of its partition, including records of open transactions."""
        return {task: each.stop for task, each in self._watermarks(tasks).items()}

    def close(self) -> None:
        if self._ends is not None:
            self._ends.close()
            self._ends = None

    def _reader(self, isolation: str = "read_committed") -> LogReader:
        return LogReader(self._kafka, isolation=isolation, group=self._group, role=self._bolt)

    def _catalogue(self) -> Catalogue:
        return Catalogue(self._kafka, group=self._group)

    def _watermarks(self, tasks: Iterable[int]) -> dict[int, range]:
        # With read_committed, the end would be the last stable offset, before the first open transaction.
        if self._ends is None:
            self._ends = self._reader("read_uncommitted")
        found = self._ends.offset_ranges([(self.topic, task) for task in tasks])
        return {partition: offsets for (_, partition), offsets in found.items()}

    def _check_position(self, task: int, store: Store, kept: range) -> None:
        position = store.position or 0
        if position > kept.stop:
            raise StateError(
                f"{self.topic}[{task}] ends at offset {kept.stop}, and the store of task {task} is at {position}: "
                "brokers have lost records, or the topic was deleted and created again. To continue with what the "
                "changelog has, delete the directory of the store; to begin with an empty state, "
                f"{self._reset()}"
            )
        if position < kept.start:
            raise StateError(
                f"{self.topic}[{task}] begins at offset {kept.start}, and the restore begins at {position}: records "
                "were deleted, so the state is incomplete. Check its cleanup.policy with acker doctor; to begin "
                f"with an empty state, {self._reset()}"
            )

    def _check_about(self, task: int, store: Store, committed: int) -> None:
        found, place = store.get(ABOUT_KEY), f"{self.topic}[{task}]"
        if found is None:
            if committed or len(store):
                raise StateError(
                    f"{place} has no record {ABOUT_KEY!r}, but {self._inbox}[{task}] was processed up to offset "
                    f"{committed}: the changelog was deleted, or the bolt had no state before. To begin with an empty "
                    f"state, {self._reset()}"
                )
            return
        try:
            about = About.from_json(found)
        except WireError as error:
            raise StateError(f"{place}, record {ABOUT_KEY!r}: {error.detail}. {_UPGRADE}{self._reset()}") from error
        if difference := about.difference(self.about):
            raise StateError(
                f"{place} is the changelog of another state: {difference}. Run the code that has written it, give the "
                f"bolt another name, or begin with an empty state: {self._reset()}"
            )
        check_source_topics(about, self.about)

    def _reset(self) -> str:
        return f"acker state reset {self._topology.name} {self._bolt}"

    def _source_ids(self) -> dict[str, dict[str, str]]:
        """Spout → the ids of the topics that it reads, if this user may describe them."""
        spouts = {each.name for each in self._topology.manifest.spouts_upstream(self._bolt)}
        topics = {spout: each for spout, each in self._topology.kafka_sources.items() if spout in spouts}
        try:
            described = self._catalogue().described({topic for each in topics.values() for topic in each})
        except BrokerError as error:
            logger.warning("the ids of the topics that %s reads are not known: %s", ", ".join(sorted(topics)), error)
            return {}
        ids = {name: str(each.topic_id) for name, each in described.items() if hasattr(each, "topic_id")}
        return {spout: {topic: ids[topic] for topic in each} for spout, each in topics.items() if ids.keys() >= {*each}}


_UPGRADE: Final = "Run the version that has written it, or begin with an empty state: "


class _Run:
    """Reads several partitions once, each up to an end."""

    def __init__(
        self, topic: str, stores: Mapping[int, Store], ends: Mapping[int, int], clock: Callable[[], float]
    ) -> None:
        self._topic, self._stores, self._ends, self._clock = topic, stores, ends, clock
        self._positions = {task: store.position or 0 for task, store in stores.items()}
        self._changes: dict[int, dict[bytes, tuple[bytes | None, int]]] = {task: {} for task in stores}
        self._records = self._bytes = 0
        self._total = self._left()
        self._began = self._active_at = self._logged_at = clock()

    def read(self, reader: LogReader, on_progress: OnProgress) -> None:
        left = {task for task, end in self._ends.items() if self._positions[task] < end}
        if left:
            text = "restoring tasks %s from %s: %s offsets to read"
            logger.info(text, _listed(left), self._topic, f"{self._progress().left:,}", extra=EACH)
            reader.assign({(self._topic, task): self._positions[task] for task in left})
        while left:
            ends_known = dict(reader.ended)
            messages = reader.poll(_POLL_SECONDS)
            if messages or reader.ended != ends_known:
                self._active_at = self._clock()
            self._take(messages)
            for place, offset in reader.ended.items():
                self._positions[place[1]] = max(self._positions[place[1]], offset)
            for task in [each for each in left if self._positions[each] >= self._ends[each]]:
                left.remove(task)
                reader.pause((self._topic, task))
            on_progress(self._progress())
            if left:
                self._look(reader.ended, left)
        for task, store in self._stores.items():
            self._load(task)
            store.flush()

    def _take(self, messages: Sequence[Message]) -> None:
        """Keeps the changes of records for `_load`; a single loop, because a state has millions of records."""
        size, kept, positions = 0, self._changes, self._positions
        for message in messages:
            key, value, task = message.key(), message.value(), message.partition()
            if key is None or task is None:
                self._raise_without_key(message)
            changes = kept[task]
            changes[key] = value, message.timestamp()[1]
            positions[task] = message.offset() + 1  # type: ignore[operator]
            size += len(key) if value is None else len(key) + len(value)
            if len(changes) >= _BATCH:
                self._load(task)
        self._records += len(messages)
        self._bytes += size

    def _raise_without_key(self, message: Message) -> NoReturn:
        place = f"{self._topic}[{message.partition()}] offset {message.offset()}"
        raise StateError(
            f"{place}: a record without a key does not belong to a state. Another program has written it: let only the "
            "bolt write to its changelog (acker topics acls); begin with an empty state: acker state reset"
        )

    def _load(self, task: int) -> None:
        self._stores[task].load(self._changes[task], self._positions[task])
        self._changes[task] = {}

    def _look(self, ended: Mapping[Place, int], left: set[int]) -> None:
        """Logs the progress, and raises an error if there was none for too long."""
        now = self._clock()
        # If the readable ends of all partitions are reached, the rest are records of an open transaction.
        waits = all((self._topic, task) in ended for task in left)
        waited_s = now - self._active_at
        if waited_s > (_TRANSACTION_SECONDS if waits else _RECEIVE_TIMEOUT_SECONDS):
            self._raise_timeout(waited_s, waits=waits, left=left)
        if now - self._logged_at < LOG_SECONDS:
            return
        self._logged_at = now
        progress = self._progress()
        if waits and waited_s > LOG_SECONDS:
            text = "restoring tasks %s from %s: waiting for a transaction of an earlier owner, which its broker ends"
            logger.info(text, _listed(left), self._topic, extra=EACH)
        else:
            logger.info(
                "restoring tasks %s from %s: %s records, %s/s, %s offsets left",
                *(_listed(left), self._topic, f"{progress.records:,}"),
                *(f"{progress.records_per_second:,.0f}", f"{progress.left:,}"),
                extra=EACH,
            )

    def _raise_timeout(self, waited_s: float, *, waits: bool, left: set[int]) -> None:
        if waits:
            places = ", ".join(f"{self._topic}[{task}]@{self._positions[task]}" for task in sorted(left))
            raise StateError(
                f"a transaction has been open for {waited_s:.0f} s at {places}: find it with kafka-transactions "
                "find-hanging, and abort it"
            )
        raise BrokerUnreachableError(
            f"no records of {self._topic} came for {waited_s:.0f} s: try again when the brokers are available"
        )

    def _progress(self) -> RestoreProgress:
        seconds = self._clock() - self._began
        tasks = tuple(sorted(self._stores))
        return RestoreProgress(tasks, self._records, self._bytes, seconds, self._left(), self._total)

    def _left(self) -> int:
        return sum(max(0, end - self._positions[task]) for task, end in self._ends.items())

    def log_end(self) -> None:
        progress = self._progress()
        logger.info(
            "restored tasks %s from %s: %s keys; read %s records, %.1f MB, in %.1f s, %s/s",
            *(_listed(self._stores), self._topic, f"{sum(map(len, self._stores.values())):,}"),
            *(f"{progress.records:,}", progress.bytes / 1e6, progress.seconds),
            f"{progress.records_per_second:,.0f}",
            extra=EACH,
        )


def _listed(tasks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(tasks)))
