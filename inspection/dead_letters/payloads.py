"""Payloads of dead letters as text: tuples by field, else the text, else hexadecimal."""

import codecs
from collections.abc import Iterator
from typing import Final

from inspection.dead_letters.letter import DeadLetter
from inspection.previews import PREVIEW_CHARACTERS, Previews
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic

_WIDTH: Final = 16


class LetterPreviews:
    def __init__(self, manifest: Manifest | None) -> None:
        self._tuples: Final = None if manifest is None else Previews(manifest)
        self._inboxes: Final = "" if manifest is None else tuples_topic(manifest.topology, "")

    def of(self, letter: DeadLetter, width: int = PREVIEW_CHARACTERS) -> str:
        return self.values(letter, width) or preview(letter.value, width)

    def values(self, letter: DeadLetter, width: int) -> str | None:
        """The values by field, at most `width` characters; None if it was no tuple, or cannot be decoded."""
        if self._tuples is None or letter.value is None or not letter.topic.startswith(self._inboxes):
            return None
        # As for a bolt, the last of a name counts.
        source = dict(letter.headers).get(SOURCE_HEADER) or b""
        component, _, stream = source.decode(errors="replace").partition("/")
        return self._tuples.values(component, stream, letter.value, width)


def as_text(value: bytes, *, is_whole: bool = True) -> str | None:
    """The decoded text; None if it is none, or has control characters. Without `is_whole` the end may be cut."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(value, final=is_whole)
    except UnicodeDecodeError:
        return None
    return text if all(each.isprintable() or each in "\n\r\t" for each in text) else None


def preview(value: bytes | None, width: int = 60) -> str:
    """The beginning of a value on one line."""
    if value is None:
        return "no value"
    # A character has four bytes at most.
    text = as_text(value[: 4 * width], is_whole=len(value) <= 4 * width)
    line = (
        value[: width // 2 + 1].hex() if text is None else text.replace("\r", "␍").replace("\n", "␊").replace("\t", "␉")
    )
    return line if len(line) <= width else f"{line[: width - 1]}…"


def hex_dump(value: bytes) -> Iterator[str]:
    """Lines of 16 bytes: offset, bytes, ASCII."""
    for start in range(0, len(value), _WIDTH):
        row = value[start : start + _WIDTH]
        ascii_ = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"{start:08x}  {row.hex(' '):<{3 * _WIDTH - 1}}  {ascii_}"
