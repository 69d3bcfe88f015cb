"""The trace that a message belongs to, in the headers of the W3C: handed on from tuple to tuple, and not read.

Source: W3C Trace Context, https://www.w3.org/TR/trace-context/
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

TRACEPARENT: Final = "traceparent"
LONGEST: Final[Mapping[str, int]] = {TRACEPARENT: 128, "tracestate": 512}
"""The headers that are handed on, and the bytes that each may have; a longer one is left out.

A `traceparent` has 55 today and may grow; of a `tracestate` the W3C asks to hand on 512 at least. Without a limit one
message could make each tuple of its tree too large for Kafka.
"""


def trace_context(headers: Iterable[tuple[str, Any]]) -> list[tuple[str, str | bytes | None]]:
    """Those of a record's headers that its children get as well; the first of a name counts, mostly there are none."""
    context: dict[str, str | bytes | None] = {}
    for name, value in headers:
        if isinstance(value, bytes) and len(value) <= LONGEST.get(name, -1):
            context.setdefault(name, value)
    return [*context.items()]
