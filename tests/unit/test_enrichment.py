"""The example of a job that asks a service: `examples/enrichment.py`."""

import ast
import asyncio
import inspect
import json
from collections import Counter
from typing import Any

import pytest

from examples import enrichment
from spout_sdk.testing import SimulatedCluster


def test_each_item_is_in_a_total_once_with_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    async def category(self: Any, name: str) -> str:
        asked[name] += 1
        await asyncio.sleep(0)
        if name == "cup" and asked[name] == 1:
            raise ConnectionError("the service is down")
        return "drinks" if asked[name] <= 2 else "something else"

    monkeypatch.setattr(enrichment.Service, "category", category)
    with SimulatedCluster(enrichment.shop, paused=["add"], step=1.0) as cluster:
        cluster.produce("orders", '{"id": "1", "cents": {"tea": 300, "cup": 900}}')
        cluster.produce("orders", '{"id": "2", "cents": {}}')
        cluster.advance(100)  # the first order has timed out, and was replayed
        assert asked["cup"] > 2
        cluster.resume("add")
        cluster.kill("first", 0)
        cluster.advance(30)
        assert cluster.state("add") == {"drinks": {"category": "drinks", "items": 2, "cents": 1_200}}
        last = cluster.records("category-totals")[-1]
        assert (last.key(), json.loads(last.value() or b"")["cents"]) == (b"drinks", 1_200)
        outcomes = [json.loads(record.value() or b"") for record in cluster.records("orders.outcomes")]
        assert [each["outcome"] for each in outcomes] == ["acked", "acked"]
        assert max(each["attempts"] for each in outcomes) > 1


def test_the_example_is_short() -> None:
    source = inspect.getsource(enrichment)
    docstring = ast.get_docstring(ast.parse(source), clean=False) or ""
    lines = [line for line in source.replace(docstring, "").splitlines() if line.strip(' "')]
    assert len(lines) <= 50
