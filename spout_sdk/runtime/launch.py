"""What passes between a supervisor and the processes that it starts.

Down, on the child's standard input: one line, the `Launch`; then nothing, until the pipe closes because the supervisor
is gone, however it went. Settings may hold passwords, so they never stand on a command line or in the environment.

Up, on a pipe of its own (standard output belongs to the user's code): lines of JSON, each a `Report`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from spout_sdk.statistics.stats import Stats

EXIT_CLEAN: Final = 0
EXIT_BROKEN: Final = 1
"""It ran, and could not go on; a restart may help."""

EXIT_UNUSABLE: Final = 2
"""It could not start, and will not until the settings or the topology change."""

EXIT_GAVE_UP: Final = 3
"""It ran, and the limit of its component forbids another start."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a child has to know beyond topology and component."""

    kafka: Mapping[str, Any] = field(repr=False)
    reports: int  # file descriptor of the pipe that reports go to
    tasks: Sequence[int] | None = None  # of a spout, where there is no group; None for all
    slot: str | None = None  # end of a bolt's transactional id, the same for all processes that fill one place
    path: Sequence[str] = ()  # the supervisor's import path
    log_level: int = 30

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Launch":
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True)
class Report:
    """A line from a child: either its stats, or why it ends."""

    stats: Stats | None = None
    error: str = ""

    def to_line(self) -> bytes:
        if self.stats is not None:
            return b'{"stats":%s}\n' % self.stats.to_json().encode()
        return json.dumps({"error": self.error}).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Report":
        read = json.loads(line)
        if "stats" in read:
            return cls(stats=Stats.of(read["stats"]))
        return cls(error=str(read.get("error", "")))
