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
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    FailTupleError,
    KafkaBolt,
    KafkaSpout,
    RetryPolicy,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.windows import AggregateBolt, count, total, tumbling

CLICKS: Final = "clicks"
RESULTS: Final = "clicks-per-minute"
PARTITIONS: Final = 4
PAGES: Final = 25
A_SECOND: Final = 55
"""Clicks, by their own time."""
START_MS: Final = 1_790_000_040_000  # the first second of a minute
MINUTE_MS: Final = 60_000
DOWN: Final = "CLICKS_SERVICE_DOWN"
"""The environment variable that names a file: while it is there, the service that `Value` asks is down."""
_MALFORMED_EACH: Final = 500
_FAILURES: Final = 0.05


class Parse(BasicBolt):
    """A line that is not a click becomes a dead letter."""

    streams = (declare({"page": str, "at": int, "visitor": int}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        click = json.loads(tuple_["value"])
        collector.emit((click["page"], click["at"], click["visitor"]))


class Value(AsyncBolt):
    """Asks a service what a visitor's click is worth; one call of twenty fails, and its click is delivered again."""

    concurrency = 200
    streams = (declare({"page": str, "at": int, "cents": int}),)

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        await asyncio.sleep(random.uniform(0.0, 0.02))
        if random.random() < _FAILURES or os.path.exists(os.environ.get(DOWN, "")):
            raise FailTupleError("the service does not answer")
        collector.emit((tuple_["page"], tuple_["at"], cents_of(tuple_["visitor"])))


class PerMinute(AggregateBolt):
    """The minute of a page has a result when no further click of it comes."""

    window = tumbling(seconds=60).with_timestamp_field("at")
    aggregates = {"clicks": count(), "cents": total("cents")}
    streams = (declare({"page": str, "start": int, "end": int, "clicks": int, "cents": int}),)


def build(name: str, clicks: str = CLICKS, results: str = RESULTS, **settings: Any) -> Topology:
    """The topology, under a name, with the names of its topics, and settings of its builder."""
    builder = TopologyBuilder(name, **settings)
    builder.set_spout("clicks", KafkaSpout(clicks, retry=RetryPolicy(max_delay=2.0)), tasks=2)
    builder.set_bolt("parse", Parse, tasks=2, on_exception="dead_letter").shuffle_grouping("clicks")
    builder.set_bolt("value", Value, tasks=2).shuffle_grouping("parse")
    builder.set_bolt("per-minute", PerMinute, tasks=2).fields_grouping("value", "page")
    builder.set_bolt("publish", KafkaBolt(results, key="page")).shuffle_grouping("per-minute")
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
