"""Errors of the embedded broker; each message ends with what to do."""

from pathlib import Path

_TAIL_LINES = 20


class LocalKafkaError(Exception):
    """Base of everything that `local_kafka` raises."""


class JavaNotFoundError(LocalKafkaError):
    """No Java runtime was found."""


class JavaTooOldError(LocalKafkaError):
    """Every Java runtime that was found is older than Kafka needs."""


class DownloadError(LocalKafkaError):
    """Kafka's jars are not in the cache and could not be fetched."""


class DataDirInUseError(LocalKafkaError):
    """Another broker runs on the data directory.

    Attributes:
        data_dir: The directory.
    """

    def __init__(self, message: str, *, data_dir: Path) -> None:
        super().__init__(message)
        self.data_dir = data_dir


class BrokerStartError(LocalKafkaError):
    """The broker ended while it started, or did not answer in time.

    Attributes:
        log_path: The broker's log.
        log_tail: Its last lines, the oldest first.
    """

    def __init__(self, reason: str, log_path: Path, since: int = 0) -> None:
        """`since`: offset in the log, in bytes, from which on it is this broker's."""
        super().__init__(reason)
        self.log_path = log_path
        text = log_path.read_bytes()[since:].decode(errors="replace") if log_path.exists() else ""
        self.log_tail = tuple(text.splitlines()[-_TAIL_LINES:])

    def __str__(self) -> str:
        tail = "".join(f"    {line}\n" for line in self.log_tail)
        return f"{self.args[0]}; the last lines of its log:\n{tail}The whole log: {self.log_path}"
