"""The broker's process, which is started and ended through its guardian."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from local_kafka import guardian
from local_kafka.errors import BrokerStartError
from local_kafka.storage import Storage

_ORPHAN_SECONDS = 5.0  # from SIGTERM to SIGKILL when this process has ended
_KILL_SECONDS = 10.0
_KILL_ATTEMPTS = 10


class BrokerProcess:
    """A running broker and its guardian.

    The broker appends its output to the log of its storage, and holds the lock from now on. The guardian removes the
    files when this process dies, if `remove_when_orphaned`. Raises `BrokerStartError` if the command could not be run.
    """

    def __init__(self, command: Sequence[str], *, storage: Storage, lock: int, remove_when_orphaned: bool) -> None:
        self._storage = storage
        # Isolated and without site-packages: the guardian needs nothing but the standard library.
        launch = [
            sys.executable,
            "-I",
            "-S",
            guardian.__file__,
            str(os.getpid()),
            str(_ORPHAN_SECONDS),
            str(lock),
        ]
        launch += [str(storage.root) if remove_when_orphaned else "", *command]
        with storage.log_path.open("ab") as log:
            self.log_start = log.tell()  # from here on the log is this broker's, in bytes
            self._guardian = subprocess.Popen(
                launch,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                cwd=storage.root,
                pass_fds=(lock,),
                # A session of its own: Ctrl-C in the terminal is for the parent, which still has to stop in order.
                start_new_session=True,
            )
        assert self._guardian.stdout is not None  # noqa: S101 - for the type checker
        with self._guardian.stdout as answer:
            line = answer.readline()
        if not line.endswith(b"\n"):
            self._close()
            raise BrokerStartError(f"{command[0]} could not be started", storage.log_path, self.log_start)
        self.pid = int(line)  # of the broker's Java

    @property
    def is_running(self) -> bool:
        return self._guardian.poll() is None

    @property
    def exit_status(self) -> int | None:
        """The guardian's, as its `main` returns it; None while it runs."""
        return self._guardian.poll()

    def stop(self, timeout: float) -> None:
        """Ask the broker to end; kill it after the timeout, in seconds."""
        self._command(b"stop\n")
        try:
            self._guardian.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """End the broker at once and return when it is gone."""
        self._command(b"kill\n")
        try:
            self._guardian.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
        self._close()
        if self._guardian.returncode < 0:
            # With the guardian killed, Java is about to die (Linux), or knows nothing of it (elsewhere). It is alive
            # for as long as it holds the lock, so the process id is still its own.
            for _ in range(_KILL_ATTEMPTS):
                if self._storage.wait_until_released(timeout=0.5):
                    break
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def _command(self, command: bytes) -> None:
        stdin = self._guardian.stdin
        if stdin is not None and not stdin.closed:
            with suppress(BrokenPipeError):  # It has ended already.
                stdin.write(command)

    def _close(self) -> None:
        if self._guardian.stdin is not None:
            self._guardian.stdin.close()
        self._guardian.wait()
