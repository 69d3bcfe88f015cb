"""Dead letters: a record that could not be used, as it was, with headers that say where it lay and why.

The record's own headers come first and unchanged; these follow, all UTF-8 text:

| header | value |
|---|---|
| `dead-letter.topic`, `.partition`, `.offset` | where it lay |
| `dead-letter.reason` | a short, stable word, such as `truncated` |
| `dead-letter.detail` | a sentence for a person |
| `dead-letter.by` | who could not use it: a component's task, or `acker` |
"""

from typing import Final

PREFIX: Final = "dead-letter."

Headers = list[tuple[str, bytes]]


def dead_letter_headers(topic: str, partition: int, offset: int, *, reason: str, detail: str, by: str) -> Headers:
    """The headers that a dead letter gets in addition to its own."""
    said = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "reason": reason,
        "detail": detail,
        "by": by,
    }
    return [(PREFIX + name, text.encode()) for name, text in said.items()]
