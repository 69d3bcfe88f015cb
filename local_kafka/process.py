"""A broker's process, which is started and ended through its guardian, and its directory.

The directory has its configuration, its log, its partitions, and its lock.
"""

import base64
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from local_kafka import guardian
from local_kafka.errors import BrokerStartError, DataDirInUseError

_RELEASE_SECONDS = 3.0
_POLL_SECONDS = 0.02


class Storage:
    """The files of one broker."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log_dir = root / "data"
        self.log_path = root / "broker.log"
        self.config_path = root / "server.properties"
        self.temporary_dir = root / "tmp"
        self._lock_path = root / "lock"

    def lock(self) -> int:
        """Lock the directory, waiting a moment for a broker that is just ending.

        Returns the descriptor that holds the lock, as does each process that inherits it. Raises `DataDirInUseError`.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        self.temporary_dir.mkdir(exist_ok=True)
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if _lock_within(descriptor, _RELEASE_SECONDS):
            return descriptor
        owner = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise DataDirInUseError(
            f"{self.root} is in use by another broker{f' ({owner})' if owner else ''}: "
            "stop that one, or choose another data_dir.",
            data_dir=self.root,
        )

    def name_owner(self, descriptor: int, owner: str) -> None:
        """Write the owner of the lock into its file, for the error of another process."""
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, owner.encode(), 0)

    def wait_until_released(self, timeout: float) -> bool:
        """Wait until no process holds the lock: then the broker has ended, and nothing writes to its files."""
        try:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            return _lock_within(descriptor, timeout)
        finally:
            os.close(descriptor)

    @property
    def cluster_id(self) -> str | None:
        """The id that the directory was formatted with; None where it is not formatted."""
        try:
            lines = (self.log_dir / "meta.properties").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        return next((line.partition("=")[2] for line in lines if line.startswith("cluster.id=")), None)

    def format(self, formatted: Path) -> None:
        """Make the directory a KRaft directory with ids of its own, unless it is one."""
        if self.cluster_id is not None:
            return
        # Formatted beside and renamed: a directory half formatted by a process that was killed is never started on.
        unfinished = self.root / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(formatted, unfinished)
        meta = unfinished / "meta.properties"
        text = re.sub(
            r"(?m)^(cluster|directory)\.id=.*$", lambda id_: f"{id_[1]}.id={_random_id()}", meta.read_text("utf-8")
        )
        meta.write_text(text, encoding="utf-8")
        unfinished.rename(self.log_dir)


def keep_log(path: Path) -> Path:
    """Copy a log whose directory will be removed to a temporary file."""
    descriptor, kept = tempfile.mkstemp(prefix="kafka-acker-", suffix=".log")
    os.close(descriptor)
    with suppress(OSError):
        shutil.copyfile(path, kept)
    return Path(kept)


def _random_id() -> str:
    # Kafka's ids are UUIDs in base64, and a leading dash would look like an option.
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _lock_within(descriptor: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= deadline:
                return False
            threading.Event().wait(_POLL_SECONDS)


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
        launch = [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid()), str(_ORPHAN_SECONDS), str(lock)]
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
        assert self._guardian.stdin is not None and self._guardian.stdout is not None  # noqa: S101, PT018 - for mypy
        self._stdin = self._guardian.stdin
        with self._guardian.stdout as answer:
            line = answer.readline()
        if not line.endswith(b"\n"):
            self._stdin.close()
            self._guardian.wait()
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
        self._guardian.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._guardian.wait(timeout)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the broker at once and return when it is gone."""
        self._guardian.send_signal(signal.SIGUSR1)
        try:
            self._guardian.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        self._stdin.close()
        if self._guardian.returncode < 0:
            # With the guardian killed, Java is about to die (Linux), or knows nothing of it (elsewhere). It is alive
            # for as long as it holds the lock, so the process id is still its own.
            for _ in range(_KILL_ATTEMPTS):
                if self._storage.wait_until_released(timeout=0.5):
                    break
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
