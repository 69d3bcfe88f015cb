"""What stands beside the committed offset of a bolt whose inputs stay open for longer than a transaction."""

from dataclasses import dataclass
from typing import Final

from spout_sdk.errors import UnsupportedVersionError

_VERSION: Final = "1"
_READ: Final = "read="


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
        """What stands beside the offset; Kafka takes 4,096 bytes."""
        return f"{_VERSION}:{_READ}{self.read}:{self.windows}"

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> "BoltProgress | None":
        """Reads what stands beside a committed offset; None where somebody else committed.

        Raises:
            UnsupportedVersionError: if that was written by a version that this one cannot read.
        """
        version, _, said = (metadata or "").partition(":")
        if not said.startswith(_READ):
            return None
        if version != _VERSION:
            raise UnsupportedVersionError(
                f"the commit at offset {offset} has metadata of version {version}, and this bolt reads version "
                f"{_VERSION}: run the version that committed it, or a later one"
            )
        read, _, windows = said.removeprefix(_READ).partition(":")
        return cls(int(read), windows)
