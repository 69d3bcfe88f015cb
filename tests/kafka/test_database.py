"""The example that books payments, with Kafka and PostgreSQL, and its processes killed."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from examples.database import topology
from spout_sdk import TopologyRunner
from tests.kafka.sdk_rig import Cluster, acking
from tests.postgres import running_postgres
from tests.topics import create_topics
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

MESSAGES = 3_000


def test_kills_book_no_entry_twice(bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    create_topics(cluster.bootstrap, [NewTopic("payments", 2, 1)])
    expected: Counter[str] = Counter()
    with running_postgres(tmp_path / "postgres") as postgres:
        monkeypatch.setenv("DATABASE_URL", postgres.url)
        runner = TopologyRunner("examples.database:topology", cluster.kafka, {"book": 2})
        with acking(cluster), runner:
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
