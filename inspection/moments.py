"""Times as text."""

import re
from datetime import UTC, datetime
from typing import Final

from inspection.errors import MomentError

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def since_ms(text: str, now_ms: int) -> int:
    """The milliseconds since the epoch of `90s`, `30m`, `2h` or `1d` ago, or of a time such as `2026-03-01T12:00`.

    A time is in this machine's time zone unless it names one. Raises `MomentError`.
    """
    if ago := _AGO.fullmatch(text):
        return now_ms - round(float(ago[1]) * _UNIT_MS[ago[2]])
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError) as error:
        raise MomentError(
            f"--since {text} is no time: give a duration, such as 90s, 30m, 2h or 1d, or a time: 2026-03-01T12:00"
        ) from error


def show_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
