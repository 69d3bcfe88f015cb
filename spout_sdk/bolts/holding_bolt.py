"""`HoldingBolt`: the base of the SDK's bolts whose inputs stay open after `execute` has returned."""

from abc import ABC
from typing import TYPE_CHECKING, ClassVar

from spout_sdk.api.components import Bolt

if TYPE_CHECKING:
    from spout_sdk.bolts.execute_failures import ExecuteFailures


class HoldingBolt(Bolt, ABC):
    """A bolt that holds inputs for longer than a transaction may last; its task asks it for what follows from that.

    With `exactly_once` it settles whole records, or commits its `_progress` beside the offset.
    """

    _failures: "ExecuteFailures"
    """Handles what the user's code raises outside of `execute`; set by the task."""

    _progress = ""
    """State that is committed beside the offset, for `_resume`."""

    _may_be_busy: ClassVar[bool] = False
    """Whether `_is_busy` may become true, so that it is asked after each input."""

    _running = 0
    """Inputs that are being executed between two calls."""

    @property
    def _is_busy(self) -> bool:
        """Whether it can take no more inputs now."""
        return False

    def _wait(self, seconds: float) -> None:
        """Waits until a running input ends, `seconds` at most."""

    def _resume(self, progress: str, offset: int) -> None:
        """Continues from the `_progress` of an earlier instance; reading begins at the offset."""
