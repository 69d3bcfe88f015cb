"""A record that a task cannot read, and that may be of another version of the topology."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import UNKNOWN_STREAM, Tuple
from spout_sdk.bolts.pause import Pause
from spout_sdk.bolts.settlement import Settlement
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.versions import unreadable

logger = get_logger("spout_sdk.bolt")

_REASONS: Final = ("unknown-source", "bad-payload")  # of records that another version may be able to read
_ASK_SECONDS: Final = 1.0


class Published(Protocol):
    """The published manifest of the topology; see `kafka_clients.published_manifest`."""

    manifest: Manifest | None
    is_read: bool

    def ask(self) -> None: ...
    def look(self) -> None: ...


class UnreadRecord:
    """Decides whether a record that a task cannot read fails, waits or becomes a dead letter; holds it until then.

    The task executes nothing after it. It stays open, so the next owner of the task reads it again.

    Args:
        published: the published manifest; None if there is none; then all such records become dead letters.
        clock: monotonic seconds.

    Attributes:
        held: the tuple that stands for the record; None if there is none.
        pause: the pause of the task while it waits for a process of another version.
    """

    def __init__(
        self,
        own: Manifest,
        bolt: str,
        task: int,
        settlement: Settlement,
        published: Published | None,
        clock: Callable[[], float],
    ) -> None:
        self._own, self._bolt, self._task = own, bolt, task
        self._settlement = settlement
        self._published = published
        self._clock = clock
        self.held: Tuple | None = None
        self.pause: Pause | None = None
        self._error: WireError | None = None
        self._ask_at = 0.0

    def reject(self, tuple_: Tuple, error: WireError) -> None:
        """Holds a record that cannot be read and may be of another version; rejects any other record or tuple."""
        is_record = tuple_.pack.stream is UNKNOWN_STREAM
        if self._published is None or not is_record or error.reason not in _REASONS:
            self._settlement.reject(tuple_, error)
            return
        self.held, self._error = tuple_, error
        # Read the manifest again: that of the record's version was published before the record was sent.
        self._published.ask()
        self._ask_at = self._clock() + _ASK_SECONDS

    def tick(self, now: float) -> None:
        """Decides about a held record, if the published manifest is known."""
        tuple_, published = self.held, self._published
        if tuple_ is None or published is None or self._error is None:
            return
        published.look()
        if not published.is_read:
            return
        headers: Any = tuple_.record.headers() or ()
        source: bytes | None = dict(headers).get(SOURCE_HEADER)
        name = None if source is None else source.decode(errors="replace")
        what = unreadable(self._own, published.manifest, self._bolt, name, is_tracked=tuple_.is_tracked)
        if what == "wait":
            self._wait(now, tuple_, str(name), self._error)
            return
        self.held = self.pause = None
        if what == "dead_letter":
            self._settlement.reject(tuple_, self._error)
            return
        self._settlement.fail(
            tuple_, f"{self._bolt} does not receive {name}, neither in this process nor in the published manifest"
        )

    def _wait(self, now: float, tuple_: Tuple, source: str, error: WireError) -> None:
        if self.pause is None:
            why = f"{error.detail}; the published manifest differs: restart this process with its code"
            self.pause = Pause(now, why)
            self.pause.until = now
            where = (tuple_.topic, tuple_.partition, tuple_.offset)
            logger.warning(
                "%s/%d waits at %s[%d] offset %d, and executes nothing after it: this process has the code of another "
                "version, which cannot read %s (%s). Restart it with the code of the published manifest, or publish "
                "the manifest of this code: acker topics create MODULE:TOPOLOGY",
                *(self._bolt, self._task, *where, source, error),
            )
        if now >= self._ask_at and self._published is not None:
            self._ask_at = now + _ASK_SECONDS
            self._published.ask()
