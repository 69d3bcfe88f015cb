"""Moments as people write them."""

import re
from datetime import datetime
from typing import Final

from inspection.errors import MomentError

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def since_ms(said: str, now_ms: int) -> int:
    """A moment, in milliseconds since the epoch.

    Args:
        said: `90s`, `30m`, `2h` or `1d` ago, or a time such as `2026-03-01T12:00`, in this machine's time zone unless
            it names one.
        now_ms: the time, in milliseconds since the epoch.

    Raises:
        MomentError: if it is neither.
    """
    if ago := _AGO.fullmatch(said):
        return now_ms - round(float(ago[1]) * _UNIT_MS[ago[2]])
    try:
        return round(datetime.fromisoformat(said).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError) as error:
        raise MomentError(
            f"--since {said} is no time: write how long ago, such as 90s, 30m, 2h or 1d, or 2026-03-01T12:00"
        ) from error
