"""A dead letter, as tests read it."""

from dataclasses import dataclass
from typing import Any

from spout_sdk.testing.broker import MemoryRecord
from tuple_tree.dead_letters import PREFIX


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be used.

    Attributes:
        topic: where it lay.
        partition: of that topic.
        offset: in that partition.
        reason: a short, stable word, such as `bad-payload`.
        detail: a sentence for a person.
        by: who could not use it: a component's task, or `acker`.
        key: its key.
        value: its value, as it was.
        headers: its own headers.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    by: str
    key: bytes | None
    value: bytes | None
    headers: dict[str, Any]


def dead_letter(record: MemoryRecord) -> DeadLetter:
    headers: dict[str, Any] = dict(record.headers_ or ())
    said = {name.removeprefix(PREFIX): headers.pop(name).decode() for name in list(headers) if name.startswith(PREFIX)}
    return DeadLetter(
        topic=said["topic"],
        partition=int(said["partition"]),
        offset=int(said["offset"]),
        reason=said["reason"],
        detail=said["detail"],
        by=said["by"],
        key=record.key_,
        value=record.value_,
        headers=headers,
    )
