"""The examples, as the real commands, against plain counts of the same text."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from examples.spark_word_count import WORDS

pytestmark = pytest.mark.exhaustive

LINES = 1_500
ROOT = Path(__file__).parents[2]
LEXICON = ROOT / "examples/austen_sentiment/vader/words.tsv"
NOVELS = {"PRIDE AND PREJUDICE": "Pride and Prejudice", "EMMA": "Emma"}


@contextmanager
def started(module: str, *arguments: str, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """An example in its own session; its processes end with it."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **settings,
    )
    try:
        yield process
    finally:
        # Once it is gone, its children may still run.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def plain_totals() -> dict[str, dict[str, Any]]:
    """The example's result, computed line by line, without anything of the example's."""
    valences = dict(row.split("\t") for row in LEXICON.read_text().splitlines())
    del valences["miss"]
    text = gzip.decompress(files("acker_cli").joinpath("corpus", "austen.txt.gz").read_bytes()).decode()
    rated: Counter[str] = Counter()
    chapters: dict[str, Counter[str]] = defaultdict(Counter)
    words: dict[str, Counter[str]] = defaultdict(Counter)
    novel, chapter, left = "", 0, 0
    for line in text.splitlines():
        if line in NOVELS:
            novel, chapter, left = NOVELS[line], 0, LINES
        elif re.fullmatch("(?i)chapter [0-9ivxl]+", line):
            chapter += 1
        left -= 1
        if left < 0:
            continue
        for word in re.findall("[a-z]+(?:'[a-z]+)*", line.lower()):
            if word in valences:
                # In tenths, as the list has them, so that the order of adding them up does not matter.
                tenths = round(10 * float(valences[word]))
                rated[novel] += 1
                chapters[novel][str(chapter)] += tenths
                words[novel][word] += tenths
    return {
        novel: {
            "rated": rated[novel],
            "score": sum(words[novel].values()) / 10,
            "chapters": {chapter: score / 10 for chapter, score in chapters[novel].items()},
            "words": {word: score / 10 for word, score in words[novel].items()},
        }
        for novel in rated
    }


def test_the_sentiment_of_the_novels_is_that_of_a_plain_count() -> None:
    with started("examples.austen_sentiment", "--lines", str(LINES), "--json", stderr=subprocess.PIPE) as process:
        output, log = process.communicate(timeout=240)
    assert process.returncode == 0, log
    result = json.loads(output.splitlines()[-1])
    assert (result["acked"], result["open"]) == (2 * LINES, 0)
    assert result["novels"] == plain_totals()
    assert f"{2 * LINES:,} lines acked, 0 open" in log
    assert "Traceback" not in log


def test_a_topic_goes_through_two_spark_components() -> None:
    with started("examples.spark_spout_word_count", stderr=subprocess.PIPE) as process:
        output, log = process.communicate(timeout=240)
    assert process.returncode == 0, log
    counted = dict(part.split() for part in output.splitlines()[-2].split(", "))
    assert {word: int(count.replace(",", "")) for word, count in counted.items()} == WORDS
    assert output.splitlines()[-1] == f"10,000 lines acked, 0 open, {WORDS.total():,} words"
