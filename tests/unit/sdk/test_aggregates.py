"""Aggregates of windows, a tuple at a time and over columns, and the windows that a time is in."""

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spout_sdk.errors import TopologyError
from spout_sdk.windows import sliding, tumbling
from spout_sdk.windows.aggregates import Aggregate, Aggregates, count, fold, greatest, least, mean, total
from spout_sdk.windows.time_windows import TimeWindows

TYPES = {"page": "string", "n": "long", "euros": "double", "maybe": ["null", "long"], "raw": "bytes"}
SCHEMA = pa.schema([("page", pa.string()), ("n", pa.int64()), ("euros", pa.float64()), ("maybe", pa.int64())])
ALL = {
    "clicks": count(),
    "sum": total("n"),
    "spent": total("euros"),
    "some": total("maybe"),
    "largest": greatest("euros"),
    "smallest": least("maybe"),
    "last_page": greatest("page"),
    "average": mean("euros"),
    "average_maybe": mean("maybe"),
}
ROWS = st.fixed_dictionaries(
    {
        "page": st.sampled_from(["a", "b", "ä", ""]),
        "n": st.integers(-(2**62), 2**62),
        "euros": st.floats(-1e6, 1e6),
        "maybe": st.none() | st.integers(-100, 100),
    }
)


def of_rows(aggregates: Aggregates, rows: list[dict[str, Any]]) -> Any:
    value = aggregates.first()
    for row in rows:
        value = aggregates.add(value, row)  # type: ignore[arg-type]  # only its fields are read
    return value


TWO = [{"page": "a", "n": 3, "euros": 1.5, "maybe": None}, {"page": "bc", "n": -1, "euros": 0.5, "maybe": 7}]


@pytest.mark.parametrize(
    ("aggregate", "rows", "result"),
    [
        (count(), TWO, 2),
        (total("n"), TWO, 2),
        (total("euros"), TWO, 2.0),
        (total("maybe"), TWO, 7),
        (total("maybe"), TWO[:1], 0),
        (greatest("euros"), TWO, 1.5),
        (greatest("page"), TWO, "bc"),
        (least("maybe"), TWO, 7),
        (least("maybe"), TWO[:1], None),
        (mean("euros"), TWO, 1.0),
        (mean("maybe"), TWO, 7.0),
        (mean("maybe"), TWO[:1], None),
        (fold(str, "", lambda value, tuple_: max(value, tuple_["page"], key=len)), TWO, "bc"),
    ],
)
def test_the_result_of_rows(aggregate: Aggregate, rows: list[dict[str, Any]], result: Any) -> None:
    aggregates = Aggregates({"x": aggregate}, [TYPES])
    assert aggregates.results(of_rows(aggregates, rows)) == {"x": result}


def test_the_types_of_results() -> None:
    aggregates = Aggregates({"least": least("maybe"), "mean": mean("maybe"), "sum": total("maybe")}, [TYPES])
    assert aggregates.result_types == {"least": ["null", "long"], "mean": ["null", "double"], "sum": "long"}
    assert aggregates.can_merge
    assert not Aggregates({"longest": fold(str, "", lambda value, _: value)}, [TYPES]).can_merge
    # Streams with integers and floats are summed as floats.
    assert Aggregates({"sum": total("n")}, [{"n": "int"}, {"n": "double"}]).fields == {"sum": "double"}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(ROWS, st.integers(0, 3)), min_size=1, max_size=30))
def test_columns_give_what_rows_give(members: list[tuple[dict[str, Any], int]]) -> None:
    aggregates = Aggregates(ALL, [TYPES])
    by_group = defaultdict(list)
    for row, group in members:
        by_group[group].append(row)
    present = sorted(by_group)
    batch = pa.RecordBatch.from_pylist([row for row, _ in members], schema=SCHEMA)
    groups = np.array([present.index(group) for _, group in members])
    values = aggregates.columns(batch, np.arange(len(members)), groups, len(present))
    assert values == [of_rows(aggregates, by_group[group]) for group in present]
    assert [[*each] for each in values] == [[*aggregates.fields]] * len(present)


@settings(max_examples=30, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=10), st.integers(0, 10))
def test_merged_values_are_those_of_all_tuples(rows: list[dict[str, Any]], split: int) -> None:
    aggregates = Aggregates(ALL, [TYPES])
    merged = aggregates.merge(of_rows(aggregates, rows[:split]), of_rows(aggregates, rows[split:]))
    whole = of_rows(aggregates, rows)
    for name, value in whole.items():
        assert merged[name] == (pytest.approx(value) if isinstance(value, float) else value)


def test_a_sum_of_columns_that_exceeds_64_bits_is_not_wrapped() -> None:
    aggregates = Aggregates({"sum": total("n")}, [TYPES])
    batch = pa.RecordBatch.from_pydict({"n": pa.array([2**62] * 4)})
    (value,) = aggregates.columns(batch, np.arange(4), np.zeros(4, np.intp), 1)
    assert value == {"sum": 2**64}


@pytest.mark.parametrize(
    ("aggregates", "text"),
    [
        ({"x": total("nowhere")}, "which the tuples do not have"),
        ({"x": total("page")}, "it must be a number"),
        ({"x": greatest("raw")}, "a number or text"),
        ({"x": total}, "use count"),
        ({"x": Aggregate("total")}, "takes the name of a field"),
        ({"x": fold(int, 0, None)}, "a fold without a function"),  # type: ignore[arg-type]
        ({"x": mean("n"), "x_count": count()}, "'x_count'"),
        ({"x": greatest("mixed")}, "of types long, string"),
    ],
)
def test_an_aggregate_that_does_not_fit_is_an_error(aggregates: dict[str, Any], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        Aggregates(aggregates, [{**TYPES, "mixed": "string"}, {**TYPES, "mixed": "long"}])


@pytest.mark.parametrize(
    ("spec", "time", "starts"),
    [
        (tumbling(seconds=10), 0, [0]),
        (tumbling(seconds=10), 9_999, [0]),
        (tumbling(seconds=10), 10_000, [10_000]),
        (tumbling(seconds=10), -1, [-10_000]),
        (sliding(seconds=10, every=5), 7_000, [0, 5_000]),
        (sliding(seconds=10, every=3), 10_000, [2_000, 5_000, 8_000]),
        (sliding(seconds=5, every=10), 3_000, []),
        (sliding(seconds=5, every=10), 7_000, [5_000]),
    ],
)
def test_the_windows_of_a_time(spec: Any, time: int, starts: list[int]) -> None:
    windows = TimeWindows.of(spec)
    assert [*windows.starts(time)] == starts
    assert all(start <= time < start + windows.length for start in starts)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(-(10**6), 10**6), max_size=20),
    st.integers(1, 50),
    st.integers(1, 50),
)
def test_the_windows_of_many_times(times: list[int], length: int, every: int) -> None:
    windows = TimeWindows.of(sliding(seconds=length, every=every))
    rows, starts = windows.rows(np.array(times, np.int64))
    expected = [(row, start) for row, time in enumerate(times) for start in windows.starts(time)]
    assert list(zip(rows.tolist(), starts.tolist(), strict=True)) == expected
