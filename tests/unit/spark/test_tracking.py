"""The column `_tracking`: the anchors of a row, merged and unmerged."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import SparkJobError
from spark_jobs.transform import roots_of, tracking_of
from tuple_tree.anchors import RootColumns

IDS = st.integers(0, 2**64 - 1)


def anchors(rows: list[list[int]]) -> RootColumns:
    roots = np.array([root for row in rows for root in row], np.uint64)
    starts = None if all(len(row) == 1 for row in rows) else np.cumsum([0, *map(len, rows)])
    return RootColumns(roots, starts)


def roots_per_row(columns: RootColumns, rows: int) -> list[list[int]]:
    return [columns.take(np.array([row])).roots.tolist() for row in range(rows)]


@given(st.lists(st.lists(IDS, max_size=4), max_size=6), st.integers(0, 3))
def test_each_row_keeps_each_of_its_roots_once(rows: list[list[int]], skipped: int) -> None:
    """Once: an edge that is added to a tree twice cancels itself, and the tree could be acked without the tuple."""
    tracking = tracking_of(anchors(rows))
    assert roots_per_row(roots_of(tracking), len(rows)) == [row if len(row) == 1 else sorted(set(row)) for row in rows]
    assert roots_per_row(roots_of(tracking.slice(skipped)), len(rows[skipped:])) == [
        row if len(row) == 1 else sorted(set(row)) for row in rows[skipped:]
    ]


def test_null_is_a_row_without_roots() -> None:
    found = roots_of(pa.array([None, (7).to_bytes(8, "big"), b""], pa.binary()))
    assert roots_per_row(found, 3) == [[], [7], []]


def test_other_bytes_are_an_error() -> None:
    with pytest.raises(SparkJobError, match="keep that column as it is"):
        roots_of(pa.array([b"seven"]))
