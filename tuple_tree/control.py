"""The requested state of a topology, as a record of `acker.topologies` that spouts and `acker run` follow."""

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from tuple_tree.errors import ControlRecordError

ControlState = Literal["running", "paused", "draining", "stopped"]
"""The requested state of a topology.

- `running`: spouts emit.
- `paused`: spouts emit nothing; what is open finishes, and failed messages wait.
- `draining`: spouts emit failed messages again, and no new ones.
- `stopped`: as `paused`, and `acker run` ends its processes.
"""

_KEY_END: Final = "/control"  # no name of a topology holds a slash
_VERSION: Final = 1


def control_key(topology: str) -> bytes:
    return f"{topology}{_KEY_END}".encode()


def controlled_topology(key: bytes) -> str | None:
    """The topology of the record with a key; None if it is that of a manifest."""
    name, is_control, _ = key.decode(errors="replace").partition(_KEY_END)
    return name if is_control else None


@dataclass(frozen=True, slots=True)
class Control:
    """The value of the record.

    Attributes:
        state: the requested state.
        by: who wrote it; only shown.
        since_ms: when the broker appended it, in milliseconds since the epoch; 0 without a record.
    """

    state: ControlState = "running"
    by: str = ""
    since_ms: int = 0

    def to_json(self) -> bytes:
        """The value of the record; the time is that of the record."""
        return json.dumps({"version": _VERSION, "state": self.state, "by": self.by}).encode()

    @classmethod
    def of(cls, value: bytes | None, at_ms: int = 0) -> "Control":
        """Reads a record; a tombstone is `running`. Raises `ControlRecordError` if it is of another version."""
        if value is None:
            return cls()
        try:
            members: dict[str, Any] = json.loads(value)
            version, state, by = members["version"], members["state"], str(members.get("by", ""))
        except (ValueError, TypeError, KeyError) as error:
            raise ControlRecordError(f"a control record cannot be read: {error!r}") from error
        if version != _VERSION or state not in get_args(ControlState):
            raise ControlRecordError(
                f"a control record has version {version!r} and state {state!r}: this version knows version {_VERSION} "
                f"and {', '.join(get_args(ControlState))}; upgrade, or write it again with acker topologies resume"
            )
        return cls(state, by, at_ms)
