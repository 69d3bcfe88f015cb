"""The options of steps."""

from typing import TypedDict

from spout_sdk.api.retry import RetryPolicy
from spout_sdk.api.topology import OnConsecutiveFailures, OnException, OnExhausted


class FailureOptions(TypedDict, total=False):
    """Options for rows whose function raises, as of `TopologyBuilder.set_bolt`."""

    on_exception: OnException | None
    retry: RetryPolicy | None
    on_exhausted: OnExhausted
    max_consecutive_failures: int | None
    on_consecutive_failures: OnConsecutiveFailures


class StepOptions(FailureOptions, total=False):
    """The options of `Stream.step`; the last four are of an `async def`."""

    name: str | None
    tasks: int | None
    concurrency: int | None
    time_limit: float | None
    stop_timeout: float | None
    ordered_by: str | tuple[str, ...] | None
