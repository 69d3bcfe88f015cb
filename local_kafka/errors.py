"""What can go wrong with the embedded broker.

All of them are a `LocalKafkaError`, and every message ends with what to do about it:

    LocalKafkaError
    ├── JavaNotFoundError       no Java on this machine
    ├── JavaTooOldError         a Java, but older than Kafka needs
    ├── DownloadError           Kafka's jars could not be fetched
    ├── DataDirInUseError       another broker runs on the same directory
    └── BrokerStartError        the broker ended, or did not answer in time
"""

from collections.abc import Sequence
from pathlib import Path


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

    def __init__(self, message: str, *, log_path: Path, log_tail: Sequence[str]) -> None:
        super().__init__(message)
        self.log_path = log_path
        self.log_tail = tuple(log_tail)

    def __str__(self) -> str:
        return "\n".join(
            [str(self.args[0]), *(f"    {line}" for line in self.log_tail), f"The whole log: {self.log_path}"]
        )
