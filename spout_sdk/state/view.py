"""A read-only view of a bolt's state for programs, read from the changelog."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from confluent_kafka import Message

from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import LogReader, Progress
from spout_sdk.errors import StateError
from spout_sdk.state.stores import MemoryStore
from tuple_tree.errors import StateRecordError, WireError
from tuple_tree.manifest import Manifest
from tuple_tree.names import state_topic
from tuple_tree.state_records import ABOUT_KEY, SYSTEM_PREFIX, About, KeyCodec, ValueCodec, as_text, state_of, task_of

_BATCH: Final = 10_000


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A key of a state, and its value.

    Attributes:
        key: the values of the key's fields, in order.
        value: the value: a `dict` of the fields, or the single value.
        task: the task of the bolt that has the key, which is the partition of the changelog.
        changed_ms: the time of the last change, in milliseconds since the epoch.
    """

    key: tuple[Any, ...]
    value: Any
    task: int
    changed_ms: int


class StateView:
    """The committed state of a bolt; read-only.

    It reads the changelog, and keeps the keys of the partitions that it has read in memory, about 250 bytes for each
    key, besides the key and the value. For one thread.

        with StateView("words", "count", {"bootstrap.servers": "localhost:9092"}) as view:
            print(view.get("the"))
            view.refresh()
            for word, value in view.items():
                ...

    Args:
        topology: name of a published topology.
        bolt: name of a bolt that has a state.
        kafka: librdkafka properties, at least `bootstrap.servers`.
        progress: called while it reads, with a description, the number of records read, and the total.

    Attributes:
        manifest: the published manifest of the topology.
        bolt: the name of the bolt.
        topic: the changelog.
        keys: codec of keys.
        values: codec of values.
        key_fields: names of the fields of a key.

    Raises:
        StateError: if the bolt has no state.
        BrokerError: if there is no such topology, or no broker answers.
    """

    def __init__(self, topology: str, bolt: str, kafka: Mapping[str, Any], *, progress: Progress | None = None) -> None:
        self.manifest: Manifest = Catalogue(kafka).manifest(topology)
        try:
            self._state = state = state_of(self.manifest, bolt)
        except ValueError as error:
            raise StateError(str(error)) from error
        self.bolt, self.topic = bolt, state_topic(topology, bolt)
        self.keys, self.values = KeyCodec(state.key), ValueCodec.of(state)
        self.key_fields = self.keys.names
        self._about = About.of(self.manifest, bolt)
        self._tasks = self.manifest.component(bolt).tasks
        self._stores: dict[int, MemoryStore] = {}  # of partitions that were read
        self._reader = LogReader(kafka, progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the Kafka client."""
        self._reader.close()

    def get(self, *key: Any) -> Any:
        """The value of a key, given the values of its fields; None if it has none.

        The first call reads the partition of the key; `refresh` reads new records.

        Raises:
            TypeError: if the values do not fit the fields of a key.
            StateError: if the value cannot be read, or the changelog belongs to another state.
        """
        entry = self.entry(self.keys.encode(key))
        return None if entry is None else entry.value

    def entry(self, key: bytes) -> StateEntry | None:
        """The entry of an encoded key, see `KeyCodec`; None if it has no value."""
        task = task_of(self._state, key, self._tasks)
        self._read_first([task])
        store = self._stores[task]
        value = store.get(key)
        return None if value is None else self._entry(task, key, value, store.changed_ms(key))

    def search(self, key: bytes) -> StateEntry | None:
        """Reads the current entry of one encoded key, without keeping other keys in memory; for large states."""
        task = task_of(self._state, key, self._tasks)
        found: dict[bytes | None, tuple[bytes | None, int]] = {key: (None, 0), ABOUT_KEY: (None, 0)}

        def take(message: Message) -> None:
            if (read := message.key()) in found:
                found[read] = message.value(), message.timestamp()[1]

        self._reader.read(f"keys of {self.topic}", self._reader.offset_ranges([(self.topic, task)]), take)
        self._check_about(task, found[ABOUT_KEY][0])
        value, changed_ms = found[key]
        return None if value is None else self._entry(task, key, value, changed_ms)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yields keys and values; a key of one field is its value, a key of several fields a tuple of their values."""
        for each in self.entries():
            yield each.key[0] if len(each.key) == 1 else each.key, each.value

    def entries(self) -> Iterator[StateEntry]:
        """Yields all entries in the order of their encoded keys; the first call reads the whole changelog."""
        self._read_first(range(self._tasks))
        found = sorted(
            (key, task, value, ms) for task, store in self._stores.items() for key, value, ms in store.items()
        )
        for key, task, value, ms in found:
            yield self._entry(task, key, value, ms)

    def system_keys(self) -> Iterator[tuple[int, bytes]]:
        """Yields the keys of the records of the SDK, each with its task; for tools."""
        self._read_first(range(self._tasks))
        for task, store in self._stores.items():
            yield from ((task, key) for key, _, _ in store.items(SYSTEM_PREFIX))

    def __len__(self) -> int:
        self._read_first(range(self._tasks))
        return sum(map(len, self._stores.values()))

    def refresh(self) -> None:
        """Reads the records since the last call; the first call reads the whole changelog."""
        self._read(self._stores or range(self._tasks))

    def _read_first(self, tasks: Iterable[int]) -> None:
        if new := [task for task in tasks if task not in self._stores]:
            self._read(new)

    def _read(self, tasks: Iterable[int]) -> None:
        stores = {task: self._stores.get(task) or MemoryStore() for task in tasks}
        changes: dict[int, dict[bytes, tuple[bytes | None, int]]] = {task: {} for task in stores}
        offset_ranges = self._reader.offset_ranges([(self.topic, task) for task in stores])
        for (topic, task), kept in offset_ranges.items():
            begin = stores[task].position or 0
            if begin > kept.stop:  # the topic was deleted and created again
                stores[task], begin = MemoryStore(), 0
            offset_ranges[topic, task] = range(max(kept.start, begin), kept.stop)

        def take(message: Message) -> None:
            task, key = message.partition() or 0, message.key()
            if key is None:
                raise StateError(f"{self.topic}[{task}] offset {message.offset()}: a record without a key")
            changes[task][key] = message.value(), message.timestamp()[1]
            if len(changes[task]) >= _BATCH:
                stores[task].load(changes[task], (message.offset() or 0) + 1)
                changes[task] = {}

        self._reader.read(f"keys of {self.topic}", offset_ranges, take)
        for task, store in stores.items():
            store.load(changes[task], offset_ranges[self.topic, task].stop)
            self._check_about(task, store.get(ABOUT_KEY))
        self._stores |= stores

    def _check_about(self, task: int, found: bytes | None) -> None:
        try:
            difference = "" if found is None else About.from_json(found).difference(self._about)
        except WireError as error:
            difference = error.detail
        if difference:
            raise StateError(
                f"{self.topic}[{task}] is not the changelog of the published manifest: {difference}. Publish that of "
                "the code that has written it: acker topics create MODULE:TOPOLOGY"
            )

    def _entry(self, task: int, key: bytes, value: bytes, changed_ms: int) -> StateEntry:
        try:
            return StateEntry(self.keys.decode(key), self.values.decode(value), task, changed_ms)
        except StateRecordError as error:
            raise StateError(
                f"{self.topic}[{task}], key {as_text(key)}: {error.detail}. Another program or version has written it: "
                f"stop the bolt, and delete the key with acker state reset {self.manifest.topology} {self.bolt} KEY"
            ) from error
