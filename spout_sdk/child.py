"""A process that a supervisor has started."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from spout_sdk.launch import Launch, Report


class Child:
    """One running process of a component.

    Args:
        reference: `module:attribute` of the topology.
        component: what to run.
        kafka: librdkafka properties.
        tasks: which tasks of a spout to run, where there is no group.
        slot: the end of a bolt's transactional id.
        environment: variables to add to this process's.
        log_level: of its root logger.
    """

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
        self._reports, reports = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spout_sdk.process", reference, component],
                stdin=subprocess.PIPE,
                stdout=2,  # what user code prints must not mix with what this process prints
                pass_fds=(reports,),
                env={**os.environ, **environment},
                # Ctrl-C in a terminal is for the supervisor alone, which tells its processes when to stop.
                start_new_session=True,
            )
        finally:
            os.close(reports)
        path = tuple(os.path.abspath(entry) for entry in sys.path)
        launch = Launch(dict(kafka), reports, tasks, slot, path, log_level)
        assert self._process.stdin is not None  # noqa: S101 - because stdin=PIPE
        self._stdin = self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(launch.to_line())
            self._stdin.flush()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing happens if it has ended."""
        self._process.send_signal(number)

    def reports(self) -> Iterator[Report]:
        """What it says, until it ends."""
        with open(self._reports, "rb") as pipe:
            for line in pipe:
                if line.endswith(b"\n"):  # a killed process may leave half a line
                    yield Report.from_line(line)

    def wait(self) -> int:
        """Waits for its end.

        Returns:
            The exit code; negative for a signal.
        """
        code = self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        return code
