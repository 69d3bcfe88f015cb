"""Messages of a spout that have ended, and whose outcomes are to be written."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.delivering import Positions
from tuple_tree.outcome_records import Outcome


class Failed(NamedTuple):
    """The last failure of a message."""

    by: str = ""  # the task that wrote the fail; empty where none did
    message: str = ""


class Why(NamedTuple):
    """Why a message became a dead letter, or why its last failed attempt did not complete."""

    reason: str
    failed: Failed | None  # None if no attempt has failed
    detail: str = ""  # of a dead letter


class Ended(NamedTuple):
    """Messages that ended at one moment with the same outcome."""

    outcome: Outcome
    positions: Positions  # in rising order
    attempts: NDArray[np.int64]  # how often each was delivered
    first_emit: NDArray[np.int64]  # milliseconds since the epoch
    end: int  # milliseconds since the epoch
    why: Mapping[int, Why]  # by position, of failed messages
