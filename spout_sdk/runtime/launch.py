"""What passes between a supervisor and the processes of components.

Settings may hold passwords, so they go down on standard input, never on a command line or in the environment. Reports
come up on a pipe of their own, because standard output belongs to the user's code.
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kafka_clients import supervision
from kafka_clients.supervision import ChildProcess

EXIT_CLEAN: Final = 0
EXIT_BROKEN: Final = 1
"""It ran, and could not go on; a restart may help."""

EXIT_UNUSABLE: Final = 2
"""It could not start, and will not until the settings or the topology change."""

EXIT_GAVE_UP: Final = 3
"""It ran, and the limit of its component forbids another start."""

_MODULE: Final = "spout_sdk.runtime.process"


@dataclass(frozen=True, slots=True)
class Launch:
    """What a process has to know beyond topology and component; import path and log level are the supervisor's."""

    kafka: Mapping[str, Any] = field(repr=False)
    tasks: Sequence[int] | None = None  # of a spout, where there is no group; None for all
    slot: str | None = None  # end of a bolt's transactional id, the same for all processes that fill one place
    path: Sequence[str] = field(default_factory=lambda: [os.path.abspath(entry) for entry in sys.path])
    log_level: int = field(default_factory=lambda: logging.getLogger().getEffectiveLevel())
    reports: int = 1  # file descriptor of the pipe that reports go to


def start_early(reference: str, component: str, count: int = 1) -> None:
    """As `supervision.start_early`, for the next runner of a component."""
    supervision.start_early((_MODULE, reference, component), count)


def start(reference: str, component: str, launch: Launch, environment: Mapping[str, str]) -> ChildProcess:
    return ChildProcess((_MODULE, reference, component), environment, asdict(launch))
