"""The novels as lines with their positions, and the files that the spout reads.

`python -m examples.austen_sentiment.text` writes them to `AUSTEN_DIRECTORY`.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from acker_cli.demo.text import lines as corpus

NOVELS: Final = {"PRIDE AND PREJUDICE": "Pride and Prejudice", "EMMA": "Emma"}
"""The line that a novel begins with, and its title."""

WORD: Final = r"[a-z]+(?:'[a-z]+)*"
"""A word of a line in lower case: a regular expression with one meaning in Python and Spark."""

PLACES_A_LINE: Final = 1000
"""A position in the text is the number of its line times this, plus the position of the word in the line."""

SCHEMA: Final = "novel string, chapter bigint, number bigint, line string"
"""The files, as Spark reads them."""

_DIRECTORY_VARIABLE: Final = "AUSTEN_DIRECTORY"
_CHAPTER: Final = re.compile(r"chapter [0-9ivxl]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the text.

    Attributes:
        novel: its title.
        chapter: counted through all volumes, 0 before the first.
        number: of the line in the whole text, from 0.
        line: its text.
    """

    novel: str
    chapter: int
    number: int
    line: str


def directory() -> Path:
    """The directory of text, checkpoints and totals."""
    return Path(os.environ.get(_DIRECTORY_VARIABLE, "austen")).absolute()


def environment(directory: Path) -> dict[str, str]:
    """The environment variable with `directory`."""
    return {_DIRECTORY_VARIABLE: str(directory)}


def read_lines(most: int | None = None) -> Iterator[Line]:
    """The lines of the text that ships with the package.

    Args:
        most: of each novel; None for all.
    """
    novel, chapter, count = "", 0, 0
    for number, line in enumerate(corpus()):
        if line in NOVELS:
            novel, chapter, count = NOVELS[line], 0, 0
        elif _CHAPTER.fullmatch(line):
            chapter += 1
        count += 1
        if most is None or count <= most:
            yield Line(novel, chapter, number, line)


def write_text(to: Path, lines: Sequence[Line]) -> None:
    """Writes a file of JSON lines for each novel."""
    to.mkdir(parents=True, exist_ok=True)
    for novel in dict.fromkeys(line.novel for line in lines):
        name = novel.lower().replace(" ", "-") + ".json"
        # Spark reads a file as soon as it exists, unless its name begins with a dot: it must be complete.
        hidden = to / f".{name}"
        hidden.write_text("".join(json.dumps(asdict(line)) + "\n" for line in lines if line.novel == novel))
        hidden.rename(to / name)


if __name__ == "__main__":
    write_text(directory() / "text", list(read_lines()))
    print(f"wrote the novels to {directory() / 'text'}")
