"""What a peer is to the set-up."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DIRECTORY: Final = Path(__file__).resolve().parents[2] / ".bench"
"""Where peers are put; git ignores it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Something that we are measured against, or that the report needs.

    Attributes:
        name: as in `python -m benchmarks.setup NAME`.
        fetch: puts it into `DIRECTORY`; what is there already stays. Raises `NotSetUpError`.
    """

    name: str
    fetch: Callable[[], None]
