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
_SHOWN: Final = 5


@cache
def _text() -> tuple[str, ...]:
    packed = files("acker_cli").joinpath("corpus", _TEXT).read_bytes()
    return tuple(gzip.decompress(packed).decode().splitlines())


def lines(most: int = 0) -> tuple[str, ...]:
    """The first `most` lines, or all, of the text that ships with the package, see `corpus/README.md`."""
    return _text()[:most] if most > 0 else _text()


def words(line: str) -> list[str]:
    """The words of a line: runs of letters, apostrophes within them included, in lower case."""
    return _WORD.findall(line.lower())


def plain_count(most: int = 0) -> Counter[str]:
    """The words of the first `most` lines of the text, or of all, counted at once."""
    return Counter(word for line in lines(most) for word in words(line))


def comparison(expected: Counter[str], counted: Counter[str]) -> str:
    """Whether a topology's count is equal to the plain count, in words; the greatest differences first."""
    total, distinct = f"{counted.total():,}", f"{len(counted):,}"
    if counted == expected:
        return f"counts match: {total} words, {distinct} distinct, each as often as in a plain count of the text"
    differing = [word for word in {*expected, *counted} if expected[word] != counted[word]]
    differing.sort(key=lambda word: (-abs(expected[word] - counted[word]), word))
    shown = ", ".join(f"{word!r} {counted[word]:,} instead of {expected[word]:,}" for word in differing[:_SHOWN])
    more = f" and {len(differing) - _SHOWN:,} more" if len(differing) > _SHOWN else ""
    return (
        f"counts differ: {total} of {expected.total():,} words, {distinct} of {len(expected):,} distinct: {shown}{more}"
    )
