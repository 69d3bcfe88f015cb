"""Logging of a command."""

import logging
from typing import Final

_FORMAT: Final = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
_BRIEF: Final = "%(message)s"


def log_to_stderr(level: str, *, brief: bool = False) -> None:
    """Sends the log to standard error.

    Args:
        level: the least that is logged, such as `info`.
        brief: only the messages, for a person who looks on.
    """
    logging.basicConfig(level=level.upper(), format=_BRIEF if brief else _FORMAT)
