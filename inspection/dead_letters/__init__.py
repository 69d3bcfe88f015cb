"""The dead letters of a topology: seen, and put back where they lay, once.

`letter`: what a record of `{topology}.dead-letters` says.
`selection`: which of them are meant.
`payloads`: bytes for a person's eyes; `letter_previews`: a letter on a line, a tuple by its fields.
`putting_back`: which can be put back, and as what.
`reading`: reads the topic.
`replay`: puts letters back in transactions, and remembers it there.
"""

from inspection.dead_letters.errors import DeadLettersError
from inspection.dead_letters.letter import DeadLetter, Replay, parse
from inspection.dead_letters.letter_previews import LetterPreviews
from inspection.dead_letters.payloads import hex_dump, preview
from inspection.dead_letters.putting_back import restored_headers, why_not
from inspection.dead_letters.reading import DeadLetterLog, parsed
from inspection.dead_letters.replay import Replayed, Replayer
from inspection.dead_letters.selection import Selection

__all__ = [
    "DeadLetter",
    "DeadLetterLog",
    "DeadLettersError",
    "LetterPreviews",
    "Replay",
    "Replayed",
    "Replayer",
    "Selection",
    "hex_dump",
    "parse",
    "parsed",
    "preview",
    "restored_headers",
    "why_not",
]
