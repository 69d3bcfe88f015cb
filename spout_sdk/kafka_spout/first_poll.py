"""Where a partition is read from."""

from typing import Final, Literal, get_args

from spout_sdk.errors import TopicsError, TopologyError
from spout_sdk.kafka_spout.source import Commit, SourcePartition

FirstPoll = Literal["uncommitted_earliest", "uncommitted_latest", "earliest", "latest"]
"""Storm's strategies of the first poll.

- `uncommitted_earliest`: at the committed offset; at the beginning where nothing is committed.
- `uncommitted_latest`: at the committed offset; behind the last message where nothing is committed.
- `earliest`, `latest`: at the beginning or behind the last message, whatever somebody else has committed for the group,
  an operator's tool for instance.

What the spout itself has committed always counts: a process that is started again goes on.
"""

FIRST_POLLS: Final[tuple[FirstPoll, ...]] = get_args(FirstPoll)


def check_first_poll(strategy: str) -> None:
    if strategy not in FIRST_POLLS:
        raise TopologyError(f"first_poll is {strategy!r}: it must be one of {', '.join(FIRST_POLLS)}")


def start_offset(
    at: SourcePartition, strategy: FirstPoll, committed: Commit | None, bounds: tuple[int, int]
) -> tuple[int, int]:
    """Where to begin.

    Args:
        at: the partition.
        strategy: for what the spout has not committed itself.
        committed: by the group; None if nothing is.
        bounds: first offset, and the one after the last.

    Returns:
        The offset, and how many messages, at most, were deleted between it and the committed one.

    Raises:
        TopicsError: if the committed offset lies behind the end.
    """
    first, end = bounds
    ours = committed is not None and committed.next_attempt is not None
    if committed is None or not (ours or strategy.startswith("uncommitted")):
        return (first if strategy.endswith("earliest") else end), 0
    if committed.offset > end:
        raise TopicsError(
            f"{at} ends at offset {end}, before offset {committed.offset}, which its group has committed: if the topic "
            "was made anew, reset the group's offsets"
        )
    return max(committed.offset, first), max(0, first - committed.offset)
