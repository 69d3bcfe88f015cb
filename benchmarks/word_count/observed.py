"""Our word count with clients that write down what they send, fetch and poll; librdkafka's statistics say most of it.

A topology is run by the reference `benchmarks.word_count.observed:topology`, an acker worker by
`python -m benchmarks.word_count.observed`, which takes what `acker_cli.processes.acker_process` takes. Each client
writes a file of its own, a line of JSON twice a second.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from acker_cli.processes import acker_process
from acker_worker import ack_log, notifier
from benchmarks.word_count import topology as observed_topology
from spout_sdk.kafka import kafka_reader, kafka_sink
from spout_sdk.kafka_spout import kafka_source

DIRECTORY: Final = "ACKER_BENCHMARK_OBSERVED"
"""Environment variable: where the clients write to."""
REFERENCE: Final = "benchmarks.word_count.observed:topology"
_INTERVAL_MS: Final = 500
_NUMBERS: Final = itertools.count()

topology: Final = observed_topology.topology


class _Notes:
    """What one client writes down.

    Args:
        kind: `consumer` or `producer`.
        settings: of the client.
    """

    def __init__(self, kind: str, settings: dict[str, Any]) -> None:
        component = sys.argv[-1] if sys.argv[0].endswith("process.py") else "acker"
        self._file = Path(os.environ[DIRECTORY], f"{component}-{kind}-{os.getpid()}-{next(_NUMBERS)}")
        self._also: Callable[[str], None] = settings.get("stats_cb", lambda _said: None)
        self.polls = 0
        self.empty = 0

    def settings(self) -> dict[str, Any]:
        """What the client needs besides."""
        return {"statistics.interval.ms": _INTERVAL_MS, "stats_cb": self._hear}

    def polled(self, messages: int) -> None:
        """Counts a poll."""
        self.polls += 1
        self.empty += not messages

    def _hear(self, said: str) -> None:
        self._also(said)
        found = json.loads(said)
        requests: dict[str, int] = {}
        for broker in found["brokers"].values():
            for name, count in broker["req"].items():
                requests[name] = requests.get(name, 0) + count
        topics = [
            name
            for name, each in found["topics"].items()
            if any(part["txmsgs"] or part["rxmsgs"] for part in each["partitions"].values())
        ]
        row = {
            "at": time.monotonic(),
            "topics": topics,
            "produce": requests.get("Produce", 0),
            "fetch": requests.get("Fetch", 0),
            "requests": found["tx"],
            **{name: found[name] for name in ("tx_bytes", "rx_bytes", "txmsgs", "rxmsgs")},
            "polls": self.polls,
            "empty": self.empty,
        }
        with self._file.open("a") as file:
            file.write(json.dumps(row) + "\n")


class ObservedConsumer(confluent_kafka.Consumer):
    """A consumer that writes down what it does."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._notes = _Notes("consumer", settings)
        super().__init__({**settings, **self._notes.settings()})

    def consume(self, *args: Any, **kwargs: Any) -> Any:
        messages = super().consume(*args, **kwargs)
        self._notes.polled(len(messages))
        return messages

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        message = super().poll(*args, **kwargs)
        self._notes.polled(message is not None)
        return message


class ObservedProducer(confluent_kafka.Producer):
    """A producer that writes down what it does."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__({**settings, **_Notes("producer", settings).settings()})


def observe() -> None:
    """Lets the clients of the SDK and of the acker worker in this process be observed."""
    for module, name, client in (
        (kafka_reader, "Consumer", ObservedConsumer),
        (kafka_source, "Consumer", ObservedConsumer),
        (ack_log, "Consumer", ObservedConsumer),
        (kafka_sink, "Producer", ObservedProducer),
        (notifier, "Producer", ObservedProducer),
    ):
        setattr(module, name, client)


if DIRECTORY in os.environ:
    observe()

if __name__ == "__main__":
    sys.exit(acker_process.main())
