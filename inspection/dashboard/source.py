"""The protocol of the dashboard's figures; `docs/inspection.md` describes the objects."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Shown = Mapping[str, Any]  # A JSON object


class Source(Protocol):
    """The figures of the topologies of one cluster.

    Every method may block for seconds and is called in threads, several at once.

    Each but `topologies` raises `UnknownTopologyError` if there is no such topology, another `ClusterError` if the
    cluster does not answer; `trace` and `oldest` raise a `TraceError` if there is no tree, or the search is too large.
    """

    def topologies(self) -> Sequence[str]:
        """The names of all that are published: those whose processes report statistics first."""
        ...

    def snapshot(self, topology: str) -> Shown:
        """The topology now, as `acker top --once --json` prints it."""
        ...

    def history(self, topology: str, component: str | None) -> Shown:
        """The last hour, see `inspection.history`; of the topology, or of a component, which need not exist."""
        ...

    def findings(self, topology: str) -> Shown:
        """The doctor's last findings, with their time, null before the first, and the `problem` of the last run."""
        ...

    def failures(self, topology: str) -> Sequence[Shown]:
        """Trees that failed, the latest first."""
        ...

    def dead_letters(self, topology: str) -> Sequence[Shown]:
        """The latest dead letters, the latest first."""
        ...

    def trace(self, topology: str, root: int, ended_ms: int | None) -> Shown:
        """A tree, as `acker trace --json` prints it; `ended_ms` is the time of its notice, if that is known."""
        ...

    def oldest(self, topology: str, partition: int) -> Shown:
        """The oldest open tree of a partition of the ack log, in the same form."""
        ...

    def close(self) -> None: ...
