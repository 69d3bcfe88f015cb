"""The examples, as the real commands, against plain counts of the same text."""

import gzip
import json
import re
import subprocess
from collections import Counter, defaultdict
from importlib.resources import files
from typing import Any

import pytest

from examples.spark_word_count import WORDS
from tests.pages import ROOT
from tests.spark.rig import started

pytestmark = pytest.mark.exhaustive

LINES = 1_500
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
LEXICON = ROOT / "examples/austen_sentiment/vader/words.tsv"
NOVELS = {"PRIDE AND PREJUDICE": "Pride and Prejudice", "EMMA": "Emma"}


def plain_totals() -> dict[str, dict[str, Any]]:
    """The example's result, computed line by line, without anything of the example's."""
    valences = dict(row.split("\t") for row in LEXICON.read_text().splitlines())
    del valences["miss"]
    text = gzip.decompress(files("acker_cli").joinpath("corpus", "austen.txt.gz").read_bytes()).decode()
    rated: Counter[str] = Counter()
    # Scores in tenths, as the list has them, so that the order of adding them up does not matter.
    scores: dict[str, Any] = defaultdict(lambda: {"chapters": Counter(), "words": Counter()})
    novel, chapter, left = "", 0, 0
    for line in text.splitlines():
        if line in NOVELS:
            novel, chapter, left = NOVELS[line], 0, LINES
        elif re.fullmatch("(?i)chapter [0-9ivxl]+", line):
            chapter += 1
        left -= 1
        words = re.findall("[a-z]+(?:'[a-z]+)*", line.lower()) if left >= 0 else []
        for word in filter(valences.__contains__, words):
            rated[novel] += 1
            for kind, name in (("chapters", str(chapter)), ("words", word)):
                scores[novel][kind][name] += round(10 * float(valences[word]))
    return {
        novel: {
            "rated": rated[novel],
            "score": sum(of_novel["words"].values()) / 10,
            **{kind: {name: score / 10 for name, score in found.items()} for kind, found in of_novel.items()},
        }
        for novel, of_novel in scores.items()
    }


def test_the_sentiment_of_the_novels_is_that_of_a_plain_count() -> None:
    with started("examples.austen_sentiment", "--lines", str(LINES), "--json", **PIPES) as process:
        output, log = process.communicate(timeout=240)
    assert process.returncode == 0, log
    result = json.loads(output.splitlines()[-1])
    assert (result["acked"], result["open"]) == (2 * LINES, 0)
    assert result["novels"] == plain_totals()
    assert f"{2 * LINES:,} lines acked, 0 open" in log
    assert "Traceback" not in log


def test_a_topic_goes_through_two_spark_components() -> None:
    with started("examples.spark_spout_word_count", **PIPES) as process:
        output, log = process.communicate(timeout=240)
    assert process.returncode == 0, log
    counted = dict(part.split() for part in output.splitlines()[-2].split(", "))
    assert {word: int(count.replace(",", "")) for word, count in counted.items()} == WORDS
    assert output.splitlines()[-1] == f"10,000 lines acked, 0 open, {WORDS.total():,} words"
