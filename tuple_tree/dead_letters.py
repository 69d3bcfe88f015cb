"""Dead letters: unusable records, unchanged, with headers for the position and the reason; see `schemas/README.md`.

The marker of a replayed one is a record too: retention deletes a log from its beginning, so it outlives its letter.
"""

from typing import Final

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
