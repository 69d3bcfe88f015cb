"""What stands beside the committed offset of a bolt whose inputs stay open for longer than a transaction."""

from dataclasses import dataclass
from typing import Final

from spout_sdk.kafka.commit_metadata import commit_metadata, read_commit_metadata

_READ: Final = "read"


@dataclass(frozen=True, slots=True)
class BoltProgress:
    """How far a task was when it committed.

    Attributes:
        read: the last offset that was read, whether its tuples were executed or not.
        windows: of `WindowFold.progress`; empty for other bolts.
    """

    read: int
    windows: str = ""

    @property
    def metadata(self) -> str:
        """What stands beside the offset."""
        return commit_metadata(_READ, f"{self.read}:{self.windows}")

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> "BoltProgress | None":
        """Reads what stands beside a committed offset; None where another program has committed.

        Raises:
            UnsupportedVersionError: if that was written by a version that this one cannot read.
        """
        text = read_commit_metadata(_READ, offset, metadata)
        if text is None:
            return None
        read, _, windows = text.partition(":")
        return cls(int(read), windows)
