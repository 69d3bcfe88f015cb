"""A store on disk, in RocksDB: for states that are larger than memory, and for quick restarts on the same disk."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.errors import StateError
from spout_sdk.state.stores import Changes
from tuple_tree.state_records import SYSTEM_PREFIX
from tuple_tree.topics import STORE_HOURS

logger = get_logger("spout_sdk.state")

_FORMAT: Final = 1
_ABOUT_STORE: Final = SYSTEM_PREFIX + b"store"  # key of the store's own record, which is not in the changelog
_MS_BYTES: Final = 8
_BLOOM_BITS: Final = 10
_LOCKED: Final = "lock"
_FEW: Final = 50_000
_NO_ID: Final = "A" * 22  # the topic id that brokers without topic ids return


def store_path(directory: Path, topology: str, bolt: str, partition: int) -> Path:
    """The directory of the store of a task, in the directory for stores that a process is given."""
    return directory / topology / bolt / str(partition)


class StoreLockedError(StateError):
    """Another process has the store open."""


class RocksStore:
    """A store on disk, in its own directory; see `Store`.

    It continues with the content of the directory if that is of the same changelog, and was used in the last hour: for
    keys that were deleted earlier, the changelog may have no tombstones any more. If the process is killed, applied
    changes are kept; if the machine fails, the last changes may be missing, and are read from the changelog.

    Args:
        path: the directory; it is created if it does not exist.
        changelog: topic and partition of the changelog, for errors.
        topic_id: the id of that topic; the content of the directory is not used if it has another id.
        now_ms: returns milliseconds since the epoch.

    Raises `StateError` if `rocksdict` is not installed, `StoreLockedError` if another process has the directory open.
    """

    def __init__(
        self, path: Path, changelog: str, topic_id: str, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        try:
            import rocksdict
        except ImportError as error:
            raise StateError(
                f"the store of {changelog} at {path} needs RocksDB: pip install 'kafka-acker[rocksdb]', or use the "
                "store in memory"
            ) from error
        self._rocks: Any = rocksdict
        self._path, self._changelog, self._topic_id, self._now_ms = path, changelog, topic_id, now_ms
        self._quick: Any = rocksdict.WriteOptions()
        self._quick.disable_wal = True  # changes that a crash loses are read again
        self._db = self._opened()
        self._count: int | None = 0  # number of user keys; None if unknown
        self._at_ms: int | None = None  # the store was complete at that time, except for records past the position
        self._loading_ms: int | None = None  # when reading of the changelog began; None while it is not read
        self._loaded = 0  # number of changes since then
        self.position: int | None = None
        if (why := self._why_not_used()) is not None:
            logger.info("the store at %s is made anew: %s", path, why, extra=EACH)
            self._db.close()
            shutil.rmtree(path)
            self._db = self._opened()

    def _opened(self) -> Any:
        rocks = self._rocks
        options = rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        blocks = rocks.BlockBasedOptions()
        blocks.set_bloom_filter(_BLOOM_BITS, False)
        options.set_block_based_table_factory(blocks)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            return rocks.Rdict(str(self._path), options)
        except Exception as error:  # rocksdict raises no class of its own
            if _LOCKED in str(error).lower():
                raise StoreLockedError(
                    f"the store of {self._changelog} at {self._path} cannot be opened ({error}): another process has "
                    "it open: stop it, or give each process that does not share its tasks a directory of its own"
                ) from error
            raise StateError(
                f"the store of {self._changelog} at {self._path} cannot be opened ({error}): delete the directory: the "
                "changelog has all of it"
            ) from error

    def _why_not_used(self) -> str | None:
        """The reason not to use the content of the directory; None if it is used, or if the directory is empty."""
        found = self._db.get(_ABOUT_STORE)
        if found is None:
            return None
        about = json.loads(found)
        if about["format"] != _FORMAT:
            return f"it has format {about['format']}, and this version has {_FORMAT}"
        if about["topic_id"] != self._topic_id or self._topic_id == _NO_ID:
            return f"it is of another topic than {self._changelog} with the id {self._topic_id}"
        age_s = (self._now_ms() - (about["at_ms"] or 0)) / 1000
        if age_s > STORE_HOURS * 3600:
            return f"it was used last {age_s / 3600:.1f} hours ago, and tombstones of the changelog may be missing"
        self.position, self._count, self._at_ms = about["position"], about["count"], about["at_ms"]
        return None

    def get(self, key: bytes) -> bytes | None:
        found = self._db.get(key)
        return None if found is None else found[_MS_BYTES:]

    def apply(self, changes: Changes, position: int | None) -> None:
        self._recount(changes)
        # Only the owner of a task commits, so the store is complete now.
        self._at_ms = self._now_ms()
        self._write(changes, position)

    def load(self, changes: Changes, position: int) -> None:
        if self._loading_ms is None:
            self._loading_ms = self._now_ms()
        self._loaded += len(changes)
        # Unless only few keys are loaded, it is faster to count all keys at the end than to look up each key.
        if self.position is None or self._loaded > _FEW:
            self._count = None
        self._recount(changes)
        self._write(changes, position, self._quick)

    def flush(self) -> None:
        if self._loading_ms is None:
            self._at_ms = self._now_ms()
            self._write({}, None)
            return
        if self._count is None:
            self._count = sum(1 for _ in self._user_keys())
        # The changelog keeps the tombstone of a key that was deleted since then for two hours.
        self._at_ms, self._loading_ms, self._loaded = self._loading_ms, None, 0
        self._write({}, None, self._quick)
        with self._failing():
            self._db.flush()

    def _recount(self, changes: Changes) -> None:
        """Counts the keys that changes add and delete, if the number of keys is known."""
        if self._count is not None and changes:
            before = zip(changes.items(), self._db.get([*changes]), strict=True)
            self._count += sum(
                (value is not None) - (found is not None)
                for (key, (value, _)), found in before
                if not key.startswith(SYSTEM_PREFIX)
            )

    def _write(self, changes: Changes, position: int | None, *options: Any) -> None:
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key, (value, ms) in changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, ms.to_bytes(_MS_BYTES) + value)
        position = self.position if position is None else position
        about = {
            "format": _FORMAT,
            "topic_id": self._topic_id,
            "position": position,
            "count": self._count,
            "at_ms": self._loading_ms if self._at_ms is None else self._at_ms,
        }
        batch.put(_ABOUT_STORE, json.dumps(about).encode())
        with self._failing():
            self._db.write(batch, *options)
        self.position = position

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # rocksdict raises no class of its own
            raise StateError(
                f"the store of {self._changelog} at {self._path} cannot be written ({error}): free its disk and "
                "restart the process; the changelog has all that is committed"
            ) from error

    def _user_keys(self) -> Iterator[bytes]:
        for key in self._db.keys():  # noqa: SIM118 - it is not a mapping
            if not key.startswith(SYSTEM_PREFIX):
                yield key

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes, int]]:
        is_system = prefix.startswith(SYSTEM_PREFIX)
        for key, value in self._db.items(from_key=prefix or None):
            if not key.startswith(prefix):
                return
            if key.startswith(SYSTEM_PREFIX) == is_system and key != _ABOUT_STORE:
                yield key, value[_MS_BYTES:], int.from_bytes(value[:_MS_BYTES])

    def __len__(self) -> int:
        return sum(1 for _ in self._user_keys()) if self._count is None else self._count

    def __bool__(self) -> bool:
        return True

    @property
    def size_bytes(self) -> int:
        names = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")
        return sum(self._db.property_int_value(name) or 0 for name in names)

    def close(self) -> None:
        with self._failing():
            self._db.flush()
            self._db.close()
