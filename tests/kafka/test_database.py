"""The example that books payments, with Kafka and PostgreSQL, and its processes killed."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.kafka.sdk_rig import Source
from tests.postgres import running_postgres
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

MESSAGES = 3_000


def test_kills_book_no_entry_twice(bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Source(bootstrap_servers, "examples.database:topology", {"payments": 2})
    expected: Counter[str] = Counter()
    with running_postgres(tmp_path / "postgres") as postgres:
        monkeypatch.setenv("DATABASE_URL", postgres.url)
        with cluster.processes({"book": 2}) as runner:
            for number in range(MESSAGES):
                entries = [(random.choice("abcdef"), random.randrange(-99, 99)) for _ in range(3)]
                cluster.produce("payments", number % 2, json.dumps(entries).encode())
                for account, cents in entries:
                    expected[account] += cents
                if number % (MESSAGES // 6) == 0:
                    component = random.choice(["book", "book", "entries"])
                    eventually(lambda name=component: runner.pids()[name], "a process to kill")  # type: ignore[misc]
                    runner.kill(component)
            eventually(lambda: runner.stats()["payments"].acked == MESSAGES, "every payment acked", 180)
        booked = postgres.rows("SELECT count(*), count(DISTINCT id) FROM entries")
        balances = dict(postgres.rows("SELECT * FROM balances"))
    assert booked == [(3 * MESSAGES, 3 * MESSAGES)]
    assert balances == expected
