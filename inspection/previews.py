"""What a tuple's payload looks like, on a line."""

from typing import Final

from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.streams import PayloadCodec, payload_codec

PREVIEW_CHARACTERS: Final = 60
_SHOWN_BYTES: Final = 24


class Previews:
    """Previews of the payloads of a topology's streams.

    Args:
        manifest: of the topology.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._streams: dict[tuple[str, str], tuple[PayloadCodec, tuple[str, ...]]] = {
            (component.name, stream.name): (payload_codec(stream), stream.field_names)
            for component in manifest.components
            for stream in component.streams
        }

    def of(self, component: str, stream: str, payload: bytes | None) -> str:
        """The values by field, at most `PREVIEW_CHARACTERS` long; bytes where the payload cannot be read."""
        if payload is None:
            return "no payload"
        values = self.values(component, stream, payload, PREVIEW_CHARACTERS)
        if values is not None:
            return values
        return f"unreadable: {_bytes(payload)}" if (component, stream) in self._streams else _bytes(payload)

    def values(self, component: str, stream: str, payload: bytes, width: int) -> str | None:
        """The values by field, at most `width` characters; None where the payload cannot be read."""
        known = self._streams.get((component, stream))
        if known is None:
            return None
        codec, names = known
        try:
            values = codec.decode(payload)
        except WireError:
            return None
        text = ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))
        return text if len(text) <= width else text[: width - 1] + "…"


def _bytes(payload: bytes) -> str:
    return payload[:_SHOWN_BYTES].hex(" ") + (" …" if len(payload) > _SHOWN_BYTES else "")
