"""The page about databases, on a real PostgreSQL: each entry once, after kills and failed messages."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from examples.database import TABLES
from spout_sdk import BasicCollector, FailTupleError, OutputCollector, TaskContext, Tuple
from spout_sdk.testing import SimulatedCluster
from tests.pages import names_of
from tests.postgres import Postgres, running_postgres
from tests.seeds import each_seed

MESSAGES = 30


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as postgres:
        postgres.execute(TABLES)
        yield postgres


def test_each_entry_is_booked_once(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres.url)
    page = names_of("docs/how-to/database.md")
    PageEntries: Any = page["Entries"]  # noqa: N806
    PageBook: Any = page["Book"]  # noqa: N806

    def check(seed: int) -> None:
        rng = random.Random(seed)

        class Entries(PageEntries):  # type: ignore[misc]
            def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
                super().execute(tuple_, collector)
                if rng.random() < 0.2:
                    raise FailTupleError("after its emits")

        class Acks:
            """Fails sometimes between the commit of a batch and its acks."""

            def __init__(self, collector: OutputCollector) -> None:
                self.collector = collector

            def ack_all(self, tuples: Sequence[Tuple]) -> None:
                if rng.random() < 0.2:
                    raise FailTupleError("not acked")
                self.collector.ack_all(tuples)

        class Book(PageBook):  # type: ignore[misc]
            def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
                super().prepare(context, Acks(collector))

        expected: Counter[str] = Counter()
        ids = set()
        with SimulatedCluster(
            page["topology"], bolts={"entries": Entries, "book": Book}, seed=seed, step=1.0
        ) as cluster:
            postgres.execute("TRUNCATE entries, balances")
            for number in range(MESSAGES):
                entries = [(rng.choice("abcd"), rng.randrange(-9, 9)) for _ in range(rng.randrange(1, 4))]
                cluster.produce("payments", json.dumps(entries))
                for index, (account, cents) in enumerate(entries):
                    expected[account] += cents
                    ids.add(f"payments/0/{number}/{index}")
                if rng.random() < 0.3:
                    cluster.advance(0.3)
                    task = rng.randrange(2)
                    cluster.bolt("book", task).database.close()  # as it is lost
                    if rng.random() < 0.5:
                        cluster.kill("book", task)
            cluster.advance(90)
            assert len(cluster.acked("payments")) >= MESSAGES
        assert {id_ for (id_,) in postgres.rows("SELECT id FROM entries")} == ids
        assert dict(postgres.rows("SELECT * FROM balances")) == expected

    each_seed(check)
