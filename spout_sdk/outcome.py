"""The outcome of a message, as a client gets it."""

import json
from dataclasses import dataclass
from typing import Any, Self

from tuple_tree.outcome_records import Outcome, OutcomeRecord


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """The outcome of a message.

    Attributes:
        topic: the source topic.
        partition: of the topic.
        offset: in the partition.
        outcome: `acked`, `skipped` by `translate`, or `dead-letter`.
        attempts: how often it was delivered.
        first_emit: when it was first emitted, in milliseconds since the epoch.
        end: when it ended.
        reason: the kind of its last failure; empty without one.
        component: the component that failed it last; empty without one.
        failure: the text of its last failure.
        answer: the last answer of a bolt in the tree that was acked, as `json.loads` returns it; None without one.
    """

    topic: str
    partition: int
    offset: int
    outcome: Outcome
    attempts: int
    first_emit: int
    end: int
    reason: str = ""
    component: str = ""
    failure: str = ""
    answer: Any = None

    @classmethod
    def of(cls, record: OutcomeRecord, answer: bytes | None) -> Self:
        """The outcome in a record, and an answer in JSON; raises `ValueError` if it is not JSON."""
        return cls(*record, answer=None if answer is None else json.loads(answer))
