"""Statistics of the states of a process of a bolt."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from tuple_tree.process_stats import filter_known_fields, metric_field

_PREFIX: Final = "acker_component_"
_OF_TASKS: Final = ("task_keys", "task_bytes", "task_identities")
_ADDED: Final = ("restore_records", "restore_records_per_second", "restore_left", "restore_total")


@dataclass(frozen=True, slots=True)
class StateStats:
    """Statistics of the states of a process's tasks, and of a running restore.

    Attributes:
        guarantee: describes how often a message changes the state.
        task_keys: task → number of keys.
        task_bytes: task → size of its store in memory or on disk in bytes, as an estimate.
        task_identities: task → number of identities of applied tuples whose messages are not known to be done.
        restoring: tasks whose states are restored now.
        restore_records: number of records that this restore has read.
        restore_records_per_second: number of records that it reads in a second.
        restore_left: number of offsets of the changelog that it has not read yet.
        restore_total: number of offsets to read when it began.
        restore_seconds: seconds for which it has been running; 0 if no restore runs.
    """

    guarantee: str = ""
    task_keys: Mapping[str, int] = metric_field(
        f"{_PREFIX}state_keys", "Keys of the states of these processes.", of_tasks=True
    )
    task_bytes: Mapping[str, int] = metric_field(
        f"{_PREFIX}state_bytes", "Bytes of the stores of these states, in memory or on disk.", of_tasks=True
    )
    # About the open messages of spouts plus the messages of two seconds; it grows if spouts do not commit.
    task_identities: Mapping[str, int] = metric_field(
        f"{_PREFIX}state_identities", "Identities of tuples that these states keep.", of_tasks=True
    )
    restoring: tuple[int, ...] = metric_field(
        f"{_PREFIX}restoring_tasks", "Tasks whose states are restored now.", default=()
    )
    restore_records: int = 0
    restore_records_per_second: float = 0.0
    restore_left: int = metric_field(
        f"{_PREFIX}restore_left", "Offsets of the changelog that the restore has not read."
    )
    restore_total: int = 0
    restore_seconds: float = metric_field(
        f"{_PREFIX}restore_seconds", "Seconds for which a restore has been running; 0 if none runs.", default=0.0
    )

    @property
    def keys(self) -> int:
        return sum(self.task_keys.values())

    @property
    def bytes(self) -> int:
        return sum(self.task_bytes.values())

    @property
    def identities(self) -> int:
        return sum(self.task_identities.values())

    @property
    def restored(self) -> float:
        """The fraction of the restore that is done, from 0 to 1."""
        return (self.restore_total - self.restore_left) / self.restore_total if self.restore_total else 1.0

    def merge(self, other: "StateStats") -> "StateStats":
        """The statistics of both processes; for a task that both report, the values of `other`."""
        tasks: dict[str, Any] = {name: {**getattr(self, name), **getattr(other, name)} for name in _OF_TASKS}
        added: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return replace(
            self,
            **tasks,
            **added,
            guarantee=other.guarantee or self.guarantee,
            restoring=tuple(sorted({*self.restoring, *other.restoring})),
            restore_seconds=max(self.restore_seconds, other.restore_seconds),
        )

    def to_dict(self) -> dict[str, Any]:
        """The statistics as an object for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "StateStats":
        """Creates statistics from an object of `to_dict`; unknown members are skipped.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: if the object has another form.
        """
        read = filter_known_fields(members, _EMPTY)
        for name, value in read.items():
            match getattr(_EMPTY, name):
                case dict():
                    read[name] = {str(task): int(number) for task, number in value.items()}
                case tuple():
                    read[name] = tuple(value)
        return cls(**read)


_EMPTY: Final = StateStats()


def merged_states(left: StateStats | None, right: StateStats | None) -> StateStats | None:
    """The statistics of two processes, each None without a state; None if both are None."""
    return left.merge(right) if left is not None and right is not None else left or right
