"""Bytes for a person's eyes: as text where they are text, else as hexadecimal."""

import codecs
from collections.abc import Iterator
from typing import Final

_WIDTH: Final = 16


def as_text(value: bytes) -> str | None:
    """The text that these bytes are; None if they are none, or one that would disturb a terminal."""
    return _readable(value, is_whole=True)


def _begun_text(value: bytes) -> str | None:
    """The same for the beginning of a value, whose last character may be cut in two."""
    return _readable(value, is_whole=False)


def _readable(value: bytes, *, is_whole: bool) -> str | None:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(value, final=is_whole)
    except UnicodeDecodeError:
        return None
    return text if all(each.isprintable() or each in "\n\r\t" for each in text) else None


def preview(value: bytes | None, width: int = 60) -> str:
    """The beginning of a value on one line.

    Args:
        value: bytes; None for no value.
        width: characters at most.
    """
    if value is None:
        return "no value"
    # A character has four bytes at most.
    text = _begun_text(value[: 4 * width]) if len(value) > 4 * width else as_text(value)
    said = (
        value[: width // 2 + 1].hex() if text is None else text.replace("\r", "␍").replace("\n", "␊").replace("\t", "␉")
    )
    return said if len(said) <= width else f"{said[: width - 1]}…"


def hex_dump(value: bytes) -> Iterator[str]:
    """Lines of 16 bytes: where they begin, the bytes, and what of them is ASCII."""
    for start in range(0, len(value), _WIDTH):
        row = value[start : start + _WIDTH]
        ascii_ = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"{start:08x}  {row.hex(' '):<{3 * _WIDTH - 1}}  {ascii_}"
