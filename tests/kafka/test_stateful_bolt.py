"""A state on a broker: exact after replays, and kills of the processes that have it."""

from collections import Counter

import pytest

from spout_sdk.state import StateView
from tests.kafka.sdk_rig import Use
from tests.waiting import eventually

LINES = [f"{number % 7} the word{number % 40} and the tide" for number in range(2_000)]


@pytest.mark.exhaustive
def test_counts_are_exact_after_replays_and_kills(use: Use) -> None:
    source = use("counts", 2)
    with source.processes({"count": 2}) as runner:
        for part in range(2):
            source.feed(LINES[part::2])
            counted = runner.stats()["count"].executed
            eventually(lambda: runner.stats()["count"].executed > counted + 500, "words counted")  # noqa: B023
            runner.kill("count")
        eventually(lambda: runner.stats()["lines"].acked >= len(LINES), "every line acked")
        runner.stop()
        with StateView(source.name, "count", source.bootstrap) as view:
            found = dict(view.items())
    assert found == Counter(word for line in LINES for word in line.split())
