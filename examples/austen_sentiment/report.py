"""The result: a table, or an object for programs.

`python -m examples.austen_sentiment.report` prints the table of what is counted so far.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from examples.austen_sentiment.text import directory
from examples.austen_sentiment.totals import Total, read_totals

_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Novel:
    """The sentiment of a novel.

    Attributes:
        title: of the novel.
        rated: how many of its words are in the list.
        chapters: chapter → score.
        words: word → score.
    """

    title: str
    rated: int
    chapters: dict[int, float]
    words: dict[str, float]

    @property
    def score(self) -> float:
        """The sum over all rated words."""
        return sum(self.chapters.values())

    def best(self, sign: int) -> list[str]:
        """The words that add most to the score, or with a sign of -1 take most from it."""
        chosen = sorted(self.words, key=lambda word: (-sign * self.words[word], word))[:_SHOWN]
        return [f"{word} {self.words[word]:+,.0f}" for word in chosen if sign * self.words[word] > 0]

    def chapter(self, sign: int) -> int:
        """The chapter with the highest score, or with a sign of -1 the lowest; the title page is none."""
        scores = {chapter: score for chapter, score in self.chapters.items() if chapter}
        return max(scores, key=lambda chapter: (sign * scores[chapter], -chapter), default=0)

    def to_json(self) -> dict[str, Any]:
        """The novel for programs."""
        return {
            "rated": self.rated,
            "score": round(self.score, 1),
            "chapters": {str(chapter): round(score, 1) for chapter, score in sorted(self.chapters.items())},
            "words": {word: round(score, 1) for word, score in sorted(self.words.items())},
        }


def novels(totals: Iterable[Total]) -> list[Novel]:
    """Sums the totals up."""
    rated: Counter[str] = Counter()
    chapters: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    words: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for total in totals:
        rated[total.novel] += total.times
        chapters[total.novel][total.chapter] += total.score
        words[total.novel][total.word] += total.score
    return [Novel(title, rated[title], dict(chapters[title]), dict(words[title])) for title in sorted(rated)]


def table(found: Iterable[Novel]) -> Table:
    """The novels: rated words, score, brightest and darkest chapter, the words that matter most."""
    drawn = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    drawn.add_column("novel", no_wrap=True)
    for heading in ("rated", "score", "brightest\nchapter", "darkest\nchapter"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for heading in ("positive", "negative"):
        drawn.add_column(heading, no_wrap=True)
    for novel in found:
        drawn.add_row(
            novel.title,
            f"{novel.rated:,}",
            f"{novel.score:+,.0f}",
            str(novel.chapter(1)),
            str(novel.chapter(-1)),
            "\n".join(novel.best(1)),
            "\n".join(novel.best(-1)),
        )
    return drawn


if __name__ == "__main__":
    Console().print(table(novels(read_totals(directory()))))
