"""Records of outcomes: what became of a message of a spout, when, and after how many attempts."""

from typing import Literal, NamedTuple

from tuple_tree.components import OutcomesCodec
from tuple_tree.streams import Stream, declare

Outcome = Literal["acked", "dead-letter", "skipped"]
"""The ways in which a message ends.

- `acked`: its tree was fully processed.
- `dead-letter`: it was given up, could not be read, is no longer in its topic, or a tuple of its tree became a dead
  letter, and the others were processed.
- `skipped`: `translate` returned None.
"""

_MOST_CHARACTERS = 2_000  # of the text of a failure


class OutcomeRecord(NamedTuple):
    """The fields of a record.

    Attributes:
        topic, partition, offset: the message.
        outcome: what became of it.
        attempts: how often it was delivered.
        first_emit, end: milliseconds since the epoch.
        reason: of the last failure; empty without one.
        component: the one that failed it last; empty where none did.
        failure: the text of the last failure.
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


def outcome_stream(codec: OutcomesCodec = "json") -> Stream:
    """The stream with whose codec outcomes are written; a `KafkaSpout` with this stream reads them.

    Its fields are those of `OutcomeRecord`.
    """
    types = {name: int if kind is int else str for name, kind in OutcomeRecord.__annotations__.items()}
    return declare(types, codec=codec)


def failure_text(text: str) -> str:
    """The text of a failure as a record takes it; it may have half of a surrogate pair, which UTF-8 cannot encode."""
    return text[:_MOST_CHARACTERS].encode(errors="backslashreplace").decode()
