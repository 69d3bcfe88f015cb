"""Moments as people write them."""

from datetime import datetime

import pytest

from inspection.errors import MomentError
from inspection.moments import since_ms


@pytest.mark.parametrize(
    ("said", "ms"),
    [
        ("90s", 910_000),
        ("0.5m", 970_000),
        ("2h", 1_000_000 - 7_200_000),
        ("1d", 1_000_000 - 86_400_000),
        ("1970-01-01T00:00:10Z", 10_000),
        ("2026-03-01", round(datetime(2026, 3, 1).timestamp() * 1_000)),
    ],
)
def test_moments(said: str, ms: int) -> None:
    assert since_ms(said, 1_000_000) == ms


@pytest.mark.parametrize("said", ["", "soon", "5", "5w", "-1h", "1 h", "s", "2026-13-01"])
def test_what_is_no_moment(said: str) -> None:
    with pytest.raises(MomentError, match="30m, 2h or 1d"):
        since_ms(said, 0)
