"""A process of a component that a supervisor has started."""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka_clients import child_process
from spout_sdk.runtime.launch import Launch, Report

_MODULE: Final = "spout_sdk.runtime.process"


def start_early(reference: str, component: str, count: int = 1) -> None:
    """As `child_process.start_early`, for the next runner of a component."""
    child_process.start_early((_MODULE, reference, component), count)


class Child(child_process.ChildProcess):
    def __init__(
        self,
        reference: str,
        component: str,
        kafka: Mapping[str, Any],
        tasks: tuple[int, ...] | None,
        slot: str,
        environment: Mapping[str, str],
        log_level: int,
    ) -> None:
        path = tuple(os.path.abspath(entry) for entry in sys.path)
        super().__init__(
            (_MODULE, reference, component),
            environment,
            lambda reports: Launch(dict(kafka), reports, tasks, slot, path, log_level).to_line(),
        )

    def reports(self) -> Iterator[Report]:
        """Yields what it reports until it ends."""
        return map(Report.from_line, self.lines())
