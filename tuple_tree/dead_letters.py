"""Dead letters: unusable records, unchanged, with headers for the original position and the reason.

The record's own headers come first and unchanged; these follow, all UTF-8 text:

| header | value |
|---|---|
| `dead-letter.topic`, `.partition`, `.offset` | its original position |
| `dead-letter.index` | the index of its tuple in that record, if it had several |
| `dead-letter.reason` | a short, stable word, such as `truncated` |
| `dead-letter.detail` | a sentence for a person |
| `dead-letter.by` | who could not use it: a component's task, or `acker` |

When one is replayed, a record is appended without key and value, whose one header `dead-letter.replayed` is the offset
of the dead letter. Retention deletes a log from its beginning, so this marker outlives its dead letter.
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
