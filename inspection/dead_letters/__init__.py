"""The dead letters of a topology: shown, and replayed once.

- `letter`: records of `{topology}.dead-letters`, decoded, and filters for them; `reading` reads the topic.
- `payloads`: tuples by field, else text or hexadecimal.
- `replay`: which letters can be replayed; replays them in transactions.
"""

from inspection.dead_letters.letter import DeadLetter, Replay, Selection, parse
from inspection.dead_letters.payloads import LetterPreviews, hex_dump, preview
from inspection.dead_letters.reading import DeadLetterLog, parsed
from inspection.dead_letters.replay import Replayed, Replayer, restored_headers, why_not
from inspection.errors import DeadLettersError

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
