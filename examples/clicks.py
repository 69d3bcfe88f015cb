"""Clicks for each page and minute, each click counted once, also after kills, failures and new deployments.

Everything on this machine, with a broker of its own; processes are killed and started again meanwhile:

    python -m examples.clicks

With clicks of your own, a JSON object a line, such as {"page": "/home", "at": 1790000000000, "visitor": 7}:

    acker run examples.clicks:topology --local --feed clicks=clicks.jsonl

When a minute is over, the topic `clicks-per-minute` has a record for each page: key = page, value = JSON. The minutes
go by the time of the clicks, so a backlog gives the same results as clicks that are read at once.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spout_sdk import FailTupleError, KafkaSpout, RetryPolicy, Topology, TopologyBuilder
from spout_sdk.windows import count, total, tumbling

CLICKS: Final = "clicks"
RESULTS: Final = "clicks-per-minute"
PARTITIONS: Final = 4
PAGES: Final = 25
A_SECOND: Final = 55
"""Clicks, by their own time."""
START_MS: Final = 1_790_000_040_000  # the first second of a minute
MINUTE_MS: Final = 60_000
DOWN: Final = "CLICKS_SERVICE_DOWN"
"""The environment variable that names a file: while it is there, the service that `value` asks is down."""
_MALFORMED_EACH: Final = 500
_FAILURES: Final = 0.05


@dataclass
class Click:
    """A message; one that is no click becomes a dead letter."""

    page: str
    at: int
    visitor: int


@dataclass
class Worth:
    """A click, and what it is worth."""

    page: str
    at: int
    cents: int


@dataclass
class Minute:
    """The clicks of a page in a minute."""

    page: str
    start: int
    end: int
    clicks: int
    cents: int


async def value(click: Click) -> Worth:
    """Asks a service what a visitor's click is worth; one call of twenty fails, and its click is delivered again."""
    await asyncio.sleep(random.uniform(0.0, 0.02))
    if random.random() < _FAILURES or os.path.exists(os.environ.get(DOWN, "")):
        raise FailTupleError("the service does not answer")
    return Worth(click.page, click.at, cents_of(click.visitor))


def build(name: str, clicks: str = CLICKS, results: str = RESULTS, **settings: Any) -> Topology:
    """The topology, under a name, with the names of its topics, and settings of its builder."""
    builder = TopologyBuilder(name, **settings)
    spout = KafkaSpout(clicks, value=Click, retry=RetryPolicy(max_delay=2.0))
    worth = builder.spout("clicks", spout, tasks=2).shuffle().step(value, tasks=2, concurrency=200)
    pages = worth.key_by("page").window(tumbling(seconds=60).with_timestamp_field("at"))
    # The minute of a page has a result when no further click of it comes.
    minutes = pages.aggregate(Minute, name="per-minute", tasks=2, clicks=count(), cents=total("cents"))
    minutes.to(results, key="page", name="publish")
    return builder.build()


topology = build("clicks")


def cents_of(visitor: int) -> int:
    return visitor % 7


class Clicks:
    """Writes clicks, and knows the results; each partition is in the order of the clicks' time.

    Attributes:
        minutes: clicks and cents, by page and start of the minute.
        written: lines, the malformed ones as well.
        malformed: of them.
    """

    def __init__(self, kafka: dict[str, Any], topic: str = CLICKS) -> None:
        self._producer = Producer({**kafka, "linger.ms": 5})
        self._topic = topic
        self._number = 0
        self.minutes: dict[tuple[str, int], list[int]] = {}
        self.written = self.malformed = 0

    def write(self, clicks: int) -> None:
        """Writes the next clicks, and waits until they are in the topic."""
        for number in range(self._number, self._number + clicks):
            page = f"/page-{number * number % PAGES}" if number % 3 else f"/page-{number % PAGES}"
            self._write(number % PARTITIONS, page, START_MS + number * 1_000 // A_SECOND, number)
            if number % _MALFORMED_EACH == 0:
                self._produce(number // _MALFORMED_EACH % PARTITIONS, '{"page": "/pa')
                self.malformed += 1
            if number % 500 == 499:
                self._flush()
        self._number += clicks
        self._flush()

    def end(self) -> None:
        """Writes a click of each page in each partition, later than all others, so that all minutes before it end."""
        at = START_MS + self._number * 1_000 // A_SECOND + MINUTE_MS
        for partition in range(PARTITIONS):
            for page in range(PAGES):
                self._write(partition, f"/page-{page}", at, page)
        self._flush()
        self.open_from = at // MINUTE_MS * MINUTE_MS

    def closed(self) -> dict[tuple[str, int], list[int]]:
        """The results after `end`."""
        return {key: value for key, value in self.minutes.items() if key[1] < self.open_from}

    def _write(self, partition: int, page: str, at: int, visitor: int) -> None:
        self._produce(partition, json.dumps({"page": page, "at": at, "visitor": visitor}))
        minute = self.minutes.setdefault((page, at // MINUTE_MS * MINUTE_MS), [0, 0])
        minute[0] += 1
        minute[1] += cents_of(visitor)

    def _produce(self, partition: int, line: str) -> None:
        self._producer.produce(self._topic, line, partition=partition)
        self.written += 1

    def _flush(self) -> None:
        if self._producer.flush(60):
            raise SystemExit("the broker does not take the clicks")


class Results:
    """Reads a topic of results.

    Attributes:
        minutes: page and start of the minute → clicks and cents, as the latest record says.
        times: how often each result was written.
        changed: results that were written again with other numbers.
    """

    def __init__(self, kafka: dict[str, Any], topic: str = RESULTS) -> None:
        self._consumer = Consumer({**kafka, "group.id": f"{topic}-reader", "enable.auto.commit": False})
        partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        self.minutes: dict[tuple[str, int], list[int]] = {}
        self.times: Counter[tuple[str, int]] = Counter()
        self.changed: set[tuple[str, int]] = set()

    def look(self) -> None:
        """Reads what is new."""
        for message in self._consumer.consume(10_000, 0.2):
            if message.error() is None:
                value = json.loads(message.value() or b"")
                key, found = (value["page"], value["start"]), [value["clicks"], value["cents"]]
                if self.minutes.setdefault(key, found) != found:
                    self.changed.add(key)
                self.minutes[key] = found
                self.times[key] += 1

    def close(self) -> None:
        self._consumer.close()


def wrong(wanted: dict[tuple[str, int], list[int]], found: dict[tuple[str, int], list[int]]) -> list[str]:
    """The results that are not as they should be, in words."""
    return [
        f"{page} {start}: {found.get((page, start))}, not {wanted.get((page, start))}"
        for page, start in sorted({*wanted, *found})
        if found.get((page, start)) != wanted.get((page, start))
    ]


def main() -> int:
    """Runs it on this machine; returns the exit code."""
    from acker_cli.processes.acker_pool import AckerPool
    from kafka_clients.catalogue import Catalogue
    from local_kafka import LocalKafka
    from spout_sdk.runtime import TopologyRunner

    def deployments() -> Iterator[TopologyRunner]:
        for number in range(2):
            with TopologyRunner("examples.clicks:topology", kafka, 2) as runner:
                print(f"deployment {number + 1}", flush=True)
                runner.wait_ready(60)
                yield runner

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not condition() and time.monotonic() < deadline:
            ackers.check()
            results.look()

    late = 0
    with ExitStack() as cleaning:
        broker = cleaning.enter_context(LocalKafka())
        # So that the tasks of a killed process soon go to another one.
        kafka: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "session.timeout.ms": 6_000}
        admin = AdminClient(kafka)
        topics = [NewTopic(name, PARTITIONS, 1) for name in (CLICKS, RESULTS)]
        for future in admin.create_topics(topics).values():
            future.result(30)
        catalogue = Catalogue(kafka)
        catalogue.create_topics(topology.manifest)
        catalogue.publish(topology.manifest)
        ackers = cleaning.enter_context(AckerPool(topology.name, kafka, 1, log_level="error"))
        clicks, results = Clicks(kafka), Results(kafka)
        cleaning.callback(results.close)
        clicks.write(10_000)
        for runner in deployments():
            clicks.write(5_000)
            for component in ("value", "per-minute"):
                acked = runner.stats()["clicks"].acked
                wait(lambda acked=acked: runner.stats()["clicks"].acked > acked + 1_000)  # type: ignore[misc]  # noqa: B023
                wait(lambda component=component: runner.pids()[component])  # type: ignore[misc]  # noqa: B023
                print(f"killed process {runner.kill(component)} of {component}", flush=True)
            late += runner.stats()["per-minute"].counters.get("late tuples", 0)
            if clicks.written > 20_000:
                clicks.end()
                wait(lambda: results.minutes.keys() >= clicks.closed().keys())
                late += runner.stats()["per-minute"].counters.get("late tuples", 0)
    problems = wrong(clicks.closed(), results.minutes)
    print("\n".join(problems[:10]), end="\n" * bool(problems))
    print(f"{clicks.written:,} lines, {len(results.minutes)} results: {len(problems)} wrong, {late} clicks late")
    return 1 if problems or late else 0


if __name__ == "__main__":
    sys.exit(main())
