"""The text whose words are counted, and what a word is: one rule for the topology and for the plain count."""

import gzip
import re
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Final

WORD: Final = "[a-z]+(?:'[a-z]+)*"
"""A pattern that Python and Java read alike."""
_WORD: Final = re.compile(WORD)
_TEXT: Final = "austen.txt.gz"


@cache
def _text() -> tuple[str, ...]:
    packed = files("acker_cli").joinpath("corpus", _TEXT).read_bytes()
    return tuple(gzip.decompress(packed).decode().splitlines())


def lines(most: int = 0) -> tuple[str, ...]:
    """The first so many lines, or all, of the text that ships with the package, see `corpus/README.md`."""
    return _text()[:most] if most > 0 else _text()


def words(line: str) -> list[str]:
    """The words of a line: runs of letters, apostrophes within them included, in lower case."""
    return _WORD.findall(line.lower())


def plain_count(most: int = 0) -> Counter[str]:
    """The words of so many lines of the text, or of all, counted in one go."""
    return Counter(word for line in lines(most) for word in words(line))
