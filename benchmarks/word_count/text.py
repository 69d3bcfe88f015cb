"""The text of the word count, and its plain count.

It is the text of the demo, each line as its words with a blank between them, without the lines that have none: so every
contestant finds the same words with the cheapest split that its language has.
"""

from collections import Counter
from functools import cache
from itertools import islice

from acker_cli.demo import text


@cache
def lines() -> tuple[str, ...]:
    """The lines of the text."""
    return tuple(" ".join(words) for words in map(text.words, text.lines()) if words)


def plain_count(count: int) -> Counter[str]:
    """The words of so many lines, counted in one go; after the last line the text begins anew."""
    whole, rest = divmod(count, len(lines()))
    counted = Counter({word: whole * times for word, times in _words(len(lines())).items()} if whole else {})
    counted.update(_words(rest))
    return counted


def _words(most: int) -> Counter[str]:
    return Counter(word for line in islice(lines(), most) for word in line.split())
