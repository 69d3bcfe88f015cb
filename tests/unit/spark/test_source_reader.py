"""Messages of a Spark spout's source by position: where the end of a partition comes before what was read once."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from spark_jobs import TopicsRefusedError, source_reader
from spark_jobs.outcomes import Replays
from spark_jobs.source_reader import SourceReader
from spout_sdk.testing import MemoryRecord
from tuple_tree.positions import OFFSET_BITS


class Growing:
    """A partition that ends at an offset, and grows by some with each reading."""

    def __init__(self, end: int, by: int) -> None:
        self.end, self._by = end, by
        self.ended: dict[tuple[str, int], int] = {}

    def read(self, _what: str, offset_ranges: Mapping[Any, range], take: Callable[[Any], None]) -> None:
        self.ended = {}
        for place, offsets in offset_ranges.items():
            for offset in range(offsets.start, min(offsets.stop, self.end)):
                topic, partition = place
                take(MemoryRecord(topic, partition, offset, f"value {offset}".encode()))
            if self.end < offsets.stop:
                self.ended[place] = self.end
        self.end += self._by


def reader(log: Growing) -> SourceReader:
    made = SourceReader({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "source", "group", "read_committed")
    made.close()
    made._log = log  # type: ignore[assignment]
    return made


def test_reading_continues_behind_an_end_that_comes_too_early() -> None:
    positions = 3 << OFFSET_BITS | np.arange(10, 20)
    assert reader(Growing(12, 3)).positions({3: range(10, 20)}).tolist() == positions.tolist()
    tables: list[Any] = []
    replays = Replays(positions, np.arange(1, 11).astype(np.uint8), {int(positions[9]): "given up"})
    reader(Growing(5, 6)).read(replays, tables.append)
    (table,) = tables
    assert table["offset"].to_pylist() == [*range(10, 20)]
    assert table["_attempt_"].to_pylist() == [*range(1, 11)]
    assert table["_given_up_"].to_pylist() == [None] * 9 + ["given up"]
    assert table["value"].to_pylist()[0] == b"value 10"


def test_messages_that_do_not_come_back_are_not_taken_for_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_reader, "_RECEIVE_TIMEOUT_SECONDS", 0.05)
    with pytest.raises(TopicsRefusedError, match=r"ends before messages that were delivered \(partition 3 at 15"):
        reader(Growing(15, 0)).positions({3: range(10, 20)})
