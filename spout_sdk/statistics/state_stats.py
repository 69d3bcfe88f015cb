"""Statistics of the states of a process of a bolt."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from tuple_tree.process_stats import filter_known_fields, metric_field

_PREFIX: Final = "acker_component_"


@dataclass(frozen=True, slots=True)
class StateStats:
    """The states of the tasks that a process has, and the restore that runs.

    Attributes:
        guarantee: in words, how often a message changes the state.
        task_keys: task → keys.
        task_bytes: task → bytes of its store, in memory or on disk, as an estimate.
        task_identities: task → identities of tuples that it has applied, of messages that are not known to be done.
        restoring: tasks whose states are restored now.
        restore_records: records that this restore has read.
        restore_records_per_second: how many a second.
        restore_left: offsets of the changelog that it has not read yet.
        restore_total: offsets that it began with.
        restore_seconds: for how long it has been running; 0 if none is.
    """

    guarantee: str = ""
    task_keys: Mapping[str, int] = metric_field(
        f"{_PREFIX}state_keys", "Keys of the states of these processes.", of_tasks=True
    )
    task_bytes: Mapping[str, int] = metric_field(
        f"{_PREFIX}state_bytes", "Bytes of the stores of these states, in memory or on disk.", of_tasks=True
    )
    # As many as spouts have open messages, and those of about two seconds; it grows if commits of spouts stand still.
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
        f"{_PREFIX}restore_seconds", "Seconds for which a restore has been running; 0 if none is.", default=0.0
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
        """The share of the restore that is done, from 0 to 1."""
        return (self.restore_total - self.restore_left) / self.restore_total if self.restore_total else 1.0

    def merge(self, other: "StateStats") -> "StateStats":
        """The figures of both processes; of a task that both report, the figures of `other`."""
        return replace(
            self,
            guarantee=other.guarantee or self.guarantee,
            task_keys={**self.task_keys, **other.task_keys},
            task_bytes={**self.task_bytes, **other.task_bytes},
            task_identities={**self.task_identities, **other.task_identities},
            restoring=tuple(sorted({*self.restoring, *other.restoring})),
            restore_records=self.restore_records + other.restore_records,
            restore_records_per_second=self.restore_records_per_second + other.restore_records_per_second,
            restore_left=self.restore_left + other.restore_left,
            restore_total=self.restore_total + other.restore_total,
            restore_seconds=max(self.restore_seconds, other.restore_seconds),
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures as an object for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "StateStats":
        """The figures behind the object that `to_dict` made; members that are not known here are skipped.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: if it is something else.
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
    """The figures of two processes; None for a process of a component without a state."""
    return left.merge(right) if left is not None and right is not None else left or right
