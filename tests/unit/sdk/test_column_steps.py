"""Steps of record batches: columns in, columns out, in a simulated cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.unit.sdk.shop import ORDERS, Item, Order, items, order_stream, run, values


@dataclass
class Long:
    name: str
    length: int
    note: str | None


def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = batch.column("name")
    return pa.record_batch({"length": pc.utf8_length(names), "name": names, "note": pa.nulls(len(batch), pa.string())})


@pytest.mark.parametrize("is_local", [True, False])
def test_a_step_of_columns_is_between_steps_of_rows(is_local: bool) -> None:
    found = order_stream().step(items)
    long = (found if is_local else found.shuffle()).step(lengths, returns=Long)
    long.filter(lambda row: row.length > 3).to("out")
    with run(long, ORDERS) as cluster:
        assert values(cluster) == [{"name": "milk", "length": 4, "note": None}]
        assert cluster.pending("orders") == []


def test_a_step_of_columns_that_returns_nothing_acks_its_rows() -> None:
    seen: list[str] = []

    class Store(list[str]):
        pass

    def open_store() -> Iterator[Store]:
        yield Store()
        seen.append("closed")

    def stored(batch: pa.RecordBatch, store: Store) -> None:
        store.extend(batch.column("name").to_pylist())
        seen.extend(store)
        store.clear()

    stream = order_stream().step(items)
    stream.builder.resource(open_store)
    stream.step(stored)
    with run(stream, ORDERS) as cluster:
        assert seen == ["tea", "milk", "tea"]
        assert len(cluster.acked("orders")) == 3
    assert seen[-1] == "closed"


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (lambda batch: batch.slice(1), "return a row for each, in their order; drop rows with filter()"),
        (lambda batch: batch.select(["name"]), "the columns do not fit"),
        (lambda batch: None, "NoneType"),
    ],
)
def test_columns_that_do_not_fit_fail_their_rows(of: Any, text: str) -> None:
    def wrong(batch: pa.RecordBatch) -> pa.RecordBatch:
        return of(batch)

    stream = order_stream().step(items)
    stream.step(wrong, returns=Item).to("out")
    with run(stream, [Order("1", ["tea"])]) as cluster:
        assert values(cluster) == []
        assert text in cluster.failed("orders")[0][1].message


def test_rows_of_columns_are_retried_together() -> None:
    sizes: list[int] = []

    def flaky(batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(len(batch))
        if len(sizes) == 1:
            raise ConnectionError("later")
        return batch

    stream = order_stream().step(items)
    stream.step(flaky, returns=Item, on_exception="retry").to("out")
    with run(stream, ORDERS[:1], seconds=10) as cluster:
        assert sorted(each["name"] for each in values(cluster)) == ["milk", "tea"]
        assert cluster.failed("orders") == []
