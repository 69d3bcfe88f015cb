"""The commit of a partition of the ack log: the offset up to which notices were delivered, and its metadata.

The metadata is a JSON object, `{"v": 1, "rebuild_from": offset, "clock_ms": milliseconds, "opened": {writer:
sessions}}`, where sessions are hexadecimal, comma-separated: the session that opened last, then the superseded ones.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from acker_worker.errors import UnsupportedVersionError

_VERSION: Final = 1
METADATA_LIMIT: Final = 3_800  # Kafka keeps 4,096 bytes a partition unless set otherwise


@dataclass(frozen=True, slots=True)
class Progress:
    offset: int  # everything before it was folded, and its notices were delivered
    rebuild_from: int  # where a new owner has to begin to fold, at most `offset`
    clock_ms: int  # the ledger's clock; the notices of what expired up to it were delivered
    opened: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    """For writers that opened a session before `rebuild_from`: the last one, and those it superseded. The latest
    opening stands last."""

    def metadata(self) -> str:
        """Metadata of a committed offset; the earliest openings are left out if they do not fit."""
        values = {"v": _VERSION, "rebuild_from": self.rebuild_from, "clock_ms": self.clock_ms}
        kept = [(writer, ",".join(key.hex() for key in keys)) for writer, keys in self.opened.items()]
        while True:
            text = json.dumps({**values, "opened": dict(kept)} if kept else values, separators=(",", ":"))
            if len(text) <= METADATA_LIMIT or not kept:
                return text
            kept = kept[1 + len(kept) // 8 :]

    def within(self, low: int, high: int) -> "tuple[Progress | None, str | None]":
        """The part that a log from `low` up to `high` still has, if any, and a warning about a loss, if any."""
        if self.offset > high:
            loss = f"ends at {high}, before the committed {self.offset}: the topic was created again, so is the ledger"
            return None, loss
        if self.rebuild_from >= low:
            return self, None
        usable = Progress(max(self.offset, low), low, self.clock_ms, self.opened)
        return usable, (
            f"begins at {low}, but trees are open since {self.rebuild_from}: some will time out. Retention is too "
            "short: set retention.ms to three times the largest tree age at least"
        )

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> "Progress":
        """Reads a commit.

        An offset that was committed by something else, such as an operator's reset of the group, has no such metadata:
        the fold then begins there. Raises `UnsupportedVersionError` for an acker's of another version.
        """
        try:
            values = json.loads(metadata or "")
            if isinstance(values["v"], int) and values["v"] != _VERSION:
                raise UnsupportedVersionError(
                    f"the commit at offset {offset} has metadata of version {values['v']}, and this acker reads "
                    f"version {_VERSION}: run the version that committed it, or a later one"
                )
            rebuild_from, clock_ms = int(values["rebuild_from"]), int(values["clock_ms"])
            opened = {
                str(writer): tuple(map(bytes.fromhex, sessions.split(",")))
                for writer, sessions in values.get("opened", {}).items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return cls(offset, offset, 0)
        return cls(offset, min(rebuild_from, offset), clock_ms, opened)
