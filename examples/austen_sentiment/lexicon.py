"""The rated words: VADER's list, see `vader/README.md`."""

from functools import cache
from importlib.resources import files
from typing import Final

# In these novels it is a form of address, 885 times.
_NOT_MEANT: Final = frozenset({"miss"})


@cache
def rated_words() -> tuple[tuple[str, float], ...]:
    """Words and how pleasant they are, from -4 to 4."""
    text = files("examples.austen_sentiment").joinpath("vader", "words.tsv").read_text(encoding="utf-8")
    rows = (row.split("\t") for row in text.splitlines())
    return tuple((word, float(valence)) for word, valence in rows if word not in _NOT_MEANT)
