"""Counts done inputs that did not fit into the metadata of a commit, and logs them once."""

from collections.abc import Iterable

from kafka_clients.repeated_lines import get_logger
from spout_sdk.statistics.stats import Counters
from tuple_tree.commit_metadata import LARGEST_METADATA, Commit

logger = get_logger("spout_sdk.kafka")

LEFT_OUT = "done inputs left out of commits"
"""The counter of inputs that are done, and did not fit into the metadata of the last commit."""


class TruncatedCommits:
    """Counts and logs the inputs that the commits of a component leave out."""

    def __init__(self, component: str, counters: Counters) -> None:
        self._component = component
        self._users = counters.users
        self._was_any = False

    def note(self, commits: Iterable[Commit]) -> None:
        """Counts the inputs that the commits of all partitions leave out."""
        left_out = sum(commit.left_out for commit in commits)
        if not (left_out or self._was_any):
            return
        self._users[LEFT_OUT] = left_out
        if not self._was_any:
            self._was_any = True
            logger.warning(
                "%s: %d inputs that are done do not fit into the metadata of its commits (offset.metadata.max.bytes, "
                "%d) and would be done again after a restart, because many single inputs before them are open; logged "
                "once, see acker doctor",
                self._component,
                left_out,
                LARGEST_METADATA,
            )
