"""Payloads as text: tuples by field, else the text, else hexadecimal."""

import codecs
from collections.abc import Iterator
from typing import Final

from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.payloads import PayloadCodec, decode_tuples, payload_codec

PREVIEW_CHARACTERS: Final = 60
_SHOWN_BYTES: Final = 24
_WIDTH: Final = 16


class Previews:
    """Previews of the payloads of a topology's streams."""

    def __init__(self, manifest: Manifest) -> None:
        self._streams: dict[tuple[str, str], tuple[PayloadCodec, tuple[str, ...]]] = {
            (component.name, stream.name): (payload_codec(stream), stream.field_names)
            for component in manifest.components
            for stream in component.streams
        }

    def of(self, component: str, stream: str, payload: bytes | None, index: int) -> str:
        """The values of one of the tuples by field, at most `PREVIEW_CHARACTERS` long; bytes if it cannot be read."""
        if payload is None:
            return "no payload"
        values = self.values(component, stream, payload, PREVIEW_CHARACTERS, index)
        if values is not None:
            return values
        return f"unreadable: {_bytes(payload)}" if (component, stream) in self._streams else _bytes(payload)

    def values(self, component: str, stream: str, payload: bytes, width: int, index: int | None = None) -> str | None:
        """The values of the tuples by field, at most `width` characters; None where the payload cannot be read."""
        known = self._streams.get((component, stream))
        if known is None:
            return None
        codec, names = known
        try:
            tuples = decode_tuples(codec, payload)
        except WireError:
            return None
        chosen = tuples if index is None else tuples[index : index + 1]
        text = "; ".join(
            ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True)) for values in chosen
        )
        return text if len(text) <= width else text[: width - 1] + "…"


def _bytes(payload: bytes) -> str:
    return payload[:_SHOWN_BYTES].hex(" ") + (" …" if len(payload) > _SHOWN_BYTES else "")


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
