"""The state of one task: its values, and the identities of the tuples that have changed them."""

from collections.abc import Iterator, Mapping, Set
from itertools import islice, takewhile
from typing import Any, Final

import numpy as np

from spout_sdk.api.tuples import InputPack
from spout_sdk.emitting.task import Task
from spout_sdk.state.applied import Applied
from spout_sdk.state.deletion import Absence
from spout_sdk.state.spec import AnyStatefulBolt
from spout_sdk.state.stores import Store
from spout_sdk.state.table import StateTable
from spout_sdk.state.watermarks import SourceOffsets
from tuple_tree.components import BoltManifest
from tuple_tree.done_sets import DoneSet
from tuple_tree.ids import NO_IDS
from tuple_tree.names import state_topic
from tuple_tree.state_records import ABOUT_KEY, SYSTEM_PREFIX, About, KeyCodec

MOST_EXPIRED: Final = 50_000
"""Most keys that expire in one transaction of a task: after a long stop all keys may be due, and a transaction must end
in some seconds."""


class TaskState:
    """The state of a task.

    Call `begin` first; in each transaction call `set` and `note`, then `changes` before the commit and `committed`
    after it. After a rolled-back transaction the object is dropped, and a new one begins with the same store.

    Attributes:
        topic: the changelog; the partition is the number of the task.
        key_fields: names of the fields of a key, by component and stream that the bolt receives.
        is_single: whether a value is the value of the only field, and not a `dict`.
        absence: checks what `update` returns in place of a value.
        table: the values; set by `begin`.
        applied: the identities of applied tuples; set by `begin`.
        pack: the record whose tuples `turn` looked up last.
        repeats: indices of tuples of that record that may be repeats: call `is_repeat` for these; the others were not
            applied before.
    """

    table: StateTable
    applied: Applied
    _store: Store

    def __init__(self, bolt: AnyStatefulBolt, task: Task) -> None:
        manifest, component = task.context.manifest, task.context.component
        declared: Any = manifest.component(component)
        assert isinstance(declared, BoltManifest)  # noqa: S101 - of the SDK: the builder has checked it
        assert declared.state is not None  # noqa: S101 - as above
        self.topic = state_topic(manifest.topology, component)
        self._manifest = declared.state
        self.keys = KeyCodec(declared.state.key)
        self.key_fields = {(each.source, each.stream): each.fields for each in declared.subscriptions}
        self.value, self.is_single = declared.state.value, declared.state.is_single
        self.absence = Absence(bolt, component, self.value, is_single=self.is_single)
        self._initial = bolt.initial
        self._now_ms = task.environment.wall_ms
        self._expire_after_ms = declared.state.expire_after_ms
        self._changed_at: dict[bytes, int] = {}  # key → time of its last change in ms, oldest first; if keys expire
        self._expired = 0  # number of keys that expired in the open transaction
        self.pack: InputPack | None = None
        self.repeats: Set[int] = frozenset()
        self._rows: list[int] = []
        self._positions = self._paths = NO_IDS
        self._unwritten: dict[bytes, bytes | None] = {}  # changed records of the SDK
        self._sent: dict[bytes, tuple[bytes | None, int]] = {}  # the last result of `changes`

    def begin(self, store: Store, about: About) -> None:
        """Continues with a restored store; `about` describes the changelog, and is written if it is missing."""
        self._store = store
        found, encoded = store.get(ABOUT_KEY), about.to_json()
        # A description without the ids of source topics does not replace one that has them.
        is_written = found is not None and (found == encoded or not about.sources)
        self._unwritten = {} if is_written else {ABOUT_KEY: encoded}
        self.table = StateTable(store, self._manifest, self._initial)
        self.applied = Applied.restored((key, value) for key, value, _ in store.items(SYSTEM_PREFIX))
        if self.expires:
            at = {key: ms for key, _, ms in store.items()}
            self._changed_at = dict(sorted(at.items(), key=lambda item: item[1]))

    @property
    def expires(self) -> bool:
        """Whether keys are deleted a given time after their last change."""
        return self._expire_after_ms is not None

    @property
    def size(self) -> int:
        """The number of keys as of the last commit."""
        return len(self._store)

    @property
    def size_bytes(self) -> int:
        """Bytes of its store, in memory or on disk, as an estimate."""
        return self._store.size_bytes

    @property
    def has_changes(self) -> bool:
        return self.table.has_changes

    def set(self, key: bytes, value: Any, payload: bytes | None) -> None:
        """Changes the value of a key, as `StateTable.set` does; None deletes the key."""
        is_changed = self.table.set(key, value, payload)
        # An equal value keeps its time, as in the changelog.
        if self.expires and (is_changed or value is None):
            self._changed_at.pop(key, None)
            if value is not None:
                self._changed_at[key] = self._now_ms()

    def expire(self) -> bool:
        """Deletes expired keys, `MOST_EXPIRED` in a transaction at most.

        Returns whether more may be left for the next transaction.
        """
        if self._expire_after_ms is None:
            return False
        until = self._now_ms() - self._expire_after_ms
        changed_at = self._changed_at
        expired = [*islice(takewhile(lambda key: changed_at[key] <= until, changed_at), MOST_EXPIRED - self._expired)]
        for key in expired:
            self.set(key, None, None)
        self._expired += len(expired)
        return self._expired == MOST_EXPIRED

    def turn(self, pack: InputPack) -> None:
        """Looks up which tuples of a record were applied before; called before they are executed."""
        self._note()
        identities = pack.identities
        self._positions, self._paths = identities.positions, identities.paths
        self.repeats = frozenset(np.flatnonzero(self.applied.is_repeat(self._positions, self._paths)).tolist())
        self.pack = pack

    def is_repeat(self, index: int) -> bool:
        """Whether a tuple in `repeats` was really applied before.

        It was not if it repeats only an earlier tuple of the same record, and that was not applied in the end.
        """
        self._note()
        return self.applied.is_applied(int(self._positions[index]), int(self._paths[index]))

    def note(self, index: int) -> None:
        """Notes that a tuple of the record was applied."""
        self._rows.append(index)
        if index in self.repeats:
            # Its identity had not been applied: look up the tuples of the record again.
            self.pack = None

    def changes(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields key and value of the changelog records of the transaction that ends now; None deletes a key."""
        self._note()
        ms = self._now_ms()
        changed: Mapping[bytes, bytes | None] = {**self._unwritten, **self.table.changes, **self.applied.changes()}
        self._sent = {key: (value, ms) for key, value in changed.items()}
        yield from changed.items()

    def committed(self, position: int | None) -> None:
        """Applies the last `changes`, whose transaction is committed; the changelog is applied up to `position`."""
        self.table.committed(self._sent, position)
        self.applied.committed()
        self._sent, self._unwritten, self._expired = {}, {}, 0

    def learn(self, done: Mapping[int, DoneSet]) -> None:
        """Takes the done source positions in new commits of the spouts."""
        self.applied.learn(done)

    def learn_offsets(self, offsets: Mapping[int, SourceOffsets], now: float) -> None:
        """Takes the committed offsets and the ends of source partitions; does nothing here."""

    def look(self, now: float) -> None:
        """Called in each turn of the loop, for changes of the state without a tuple; does nothing here."""

    def messages(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yields topic, key and value of other records of the transaction that ends now; the partition is the task."""
        yield from ()

    def _note(self) -> None:
        """Passes the noted tuples of the record to `applied`."""
        if self._rows:
            self.applied.note(self._positions[self._rows], self._paths[self._rows])
            self._rows = []
