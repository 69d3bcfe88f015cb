"""Dead letters on a line: the values of those that were tuples, and the bytes of the rest."""

from typing import Final

from inspection.dead_letters.letter import DeadLetter
from inspection.dead_letters.payloads import preview
from inspection.previews import PREVIEW_CHARACTERS, Previews
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic


class LetterPreviews:
    """Previews of the dead letters of a topology.

    Args:
        manifest: of the topology; None if it is not known, and then all are shown as bytes.
    """

    def __init__(self, manifest: Manifest | None) -> None:
        self._tuples: Final = None if manifest is None else Previews(manifest)
        self._inboxes: Final = "" if manifest is None else tuples_topic(manifest.topology, "")

    def of(self, letter: DeadLetter, width: int = PREVIEW_CHARACTERS) -> str:
        """The values of a tuple by field, or else the beginning of the value, at most `width` characters."""
        return self.values(letter, width) or preview(letter.value, width)

    def values(self, letter: DeadLetter, width: int) -> str | None:
        """The values by field, at most `width` characters; None if it was no tuple, or cannot be read as one."""
        if self._tuples is None or letter.value is None or not letter.topic.startswith(self._inboxes):
            return None
        # As for a bolt, the last of a name counts.
        source = dict(letter.headers).get(SOURCE_HEADER) or b""
        component, _, stream = source.decode(errors="replace").partition("/")
        return self._tuples.values(component, stream, letter.value, width)
