"""How often Python looks for garbage in a process that only runs a component."""

import gc
from typing import Final

DEFAULT: Final = (700, 10, 10)
RARELY: Final = (5_000, 10, 10)
"""A read of 500 records makes some thousand objects, which are all gone when the next comes."""


def collect_rarely() -> None:
    """Leaves what is loaded now out of all later collections, and lets them come more rarely.

    Measured, a tuple costs a bolt's process about a tenth less CPU time. What was loaded lives as long as the process,
    so to look at it again and again finds nothing. Where the thresholds are not Python's own, the user has set them,
    and they stay as they are.
    """
    gc.collect()
    gc.freeze()
    if gc.get_threshold() == DEFAULT:
        gc.set_threshold(*RARELY)
