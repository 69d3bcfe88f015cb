"""What the dashboard shows, and the protocol behind which it comes."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Shown = Mapping[str, Any]
"""A JSON object."""


class Source(Protocol):
    """The figures of the topologies of one cluster.

    Every method may block for seconds and is called in threads, several at once.

    Each but `topologies` raises what `kafka_clients.errors` has: `UnknownTopologyError` if there is no such topology,
    another `ClusterError` if the cluster cannot be asked.
    """

    def topologies(self) -> Sequence[str]:
        """The names of those that are published, sorted."""
        ...

    def snapshot(self, topology: str) -> Shown:
        """How it stands now, as `acker top --once --json` prints it."""
        ...

    def history(self, topology: str, component: str | None) -> Shown:
        """The last hour: `topology`, `component`, and `points`, the oldest first; see `inspection.history`."""
        ...

    def findings(self, topology: str) -> Shown:
        """What the doctor found: `at`, `findings` and `problem`.

        `at` is when, in milliseconds since the epoch, null before the first look has ended; a finding has the members
        that `acker doctor --json` prints and the `component` that it is about; `problem` is why the last look failed.
        """
        ...

    def failures(self, topology: str) -> Sequence[Shown]:
        """Trees that failed, the latest first.

        Each has `root` in hex, `spout`, `task`, `reason`, `by`, `message`, `source`, `at` and `trace`. `by` is the task
        of the bolt that failed it; `source` the message of a `KafkaSpout`; both are null where that is not known. `at`
        is in milliseconds since the epoch; `trace` is the command line that shows the tree.
        """
        ...

    def dead_letters(self, topology: str) -> Sequence[Shown]:
        """The latest dead letters, the latest first.

        Each has `offset` and `at` of itself, where the record lay (`topic`, `of_partition`, `of_offset`), `reason`,
        `detail`, `by`, the beginning of its `value` as text or else in hexadecimal, and when it was last `replayed`, in
        milliseconds since the epoch. What is not known, and not said, is null.
        """
        ...

    def trace(self, topology: str, root: int, ended_ms: int | None) -> Shown:
        """A tree, as `acker trace --json` prints it: `topology`, and `trees` with the one tree."""
        ...

    def oldest(self, topology: str, partition: int) -> Shown:
        """The tree that is open for longest in a partition of the ack log, in the same form."""
        ...

    def close(self) -> None:
        """Stops what was started to find all that out."""
        ...
