"""The example of `docs/kafka-spout.md`, as the command that stands there."""

import subprocess
import sys
from pathlib import Path

from examples.kafka_spout_word_count import MESSAGES
from examples.word_count import LINES


def test_it_counts_the_words_of_a_topic() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "examples.kafka_spout_word_count"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    blank = MESSAGES // 100
    words = sum(len(LINES[number % len(LINES)].split()) for number in range(MESSAGES) if number % 100)
    assert run.stdout.splitlines()[-1] == (
        f"{MESSAGES - blank:,} lines acked, {blank} passed over, {words:,} words counted"
    )
