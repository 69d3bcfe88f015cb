"""Headers of dead letters, and of traces; see `schemas/README.md`.

A dead letter is an unusable record, unchanged, with headers for its position and the reason. The marker of a replayed
one is a record too: retention deletes a log from its beginning, so it outlives its letter.

The trace that a message belongs to is in headers of the W3C, which are copied from tuple to tuple and not read.
Source: W3C Trace Context, https://www.w3.org/TR/trace-context/
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

PREFIX: Final = "dead-letter."
REPLAYED: Final = f"{PREFIX}replayed"  # the one header of the marker of a replayed dead letter
Headers = list[tuple[str, bytes]]


def dead_letter_headers(
    topic: str, partition: int, offset: int, *, reason: str, detail: str, by: str, index: int | None = None
) -> Headers:
    """The headers that a dead letter gets in addition to its own.

    What UTF-8 cannot carry, half of a surrogate pair in the name of a file for instance, is escaped as Python shows it.
    """
    values = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "reason": reason,
        "detail": detail,
        "by": by,
        **({} if index is None else {"index": str(index)}),
    }
    return [(PREFIX + name, text.encode(errors="backslashreplace")) for name, text in values.items()]


def replay_marker(offset: int) -> Headers:
    return [(REPLAYED, str(offset).encode())]


TRACEPARENT: Final = "traceparent"
LONGEST: Final[Mapping[str, int]] = {TRACEPARENT: 128, "tracestate": 512}
"""The headers that children get, and the bytes that each may have; a longer one is left out.

A `traceparent` has 55 today and may grow; of a `tracestate` the W3C asks to pass 512 at least. Without a limit one
message could make each tuple of its tree too large for Kafka.
"""


def trace_context(headers: Iterable[tuple[str, Any]]) -> list[tuple[str, str | bytes | None]]:
    """The headers of a record that its children get as well; the first of each name counts."""
    context: dict[str, str | bytes | None] = {}
    for name, value in headers:
        if isinstance(value, bytes) and len(value) <= LONGEST.get(name, -1):
            context.setdefault(name, value)
    return [*context.items()]
