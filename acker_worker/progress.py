"""How far the owner of a partition got: the committed offset and its metadata.

The offset is the position up to which notices were delivered. The metadata is a small JSON object:
`{"v": 1, "rebuild_from": offset, "clock_ms": milliseconds}`.
"""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """A commit of one partition.

    Attributes:
        offset: everything before it was folded, and its notices were delivered.
        rebuild_from: where a new owner has to begin to fold, at most `offset`.
        clock_ms: the ledger's clock; what expired up to it was told.
    """

    offset: int
    rebuild_from: int
    clock_ms: int

    def metadata(self) -> str:
        """What is committed beside the offset."""
        return json.dumps({"v": 1, "rebuild_from": self.rebuild_from, "clock_ms": self.clock_ms}, separators=(",", ":"))

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> "Progress":
        """Reads a commit.

        An offset that somebody else committed, such as an operator who reset the group, has no metadata of ours: the
        fold then begins at the offset, with nothing told.
        """
        try:
            said = json.loads(metadata or "")
            rebuild_from, clock_ms = int(said["rebuild_from"]), int(said["clock_ms"])
        except (ValueError, KeyError, TypeError):
            return cls(offset, offset, 0)
        return cls(offset, min(rebuild_from, offset), clock_ms)
