"""A loop over confluent-kafka, as short as at least once can be: what a framework adds, it adds to this.

It has the JSON pipeline only, `--clicks DIRECTORY`. A full consumer polls again after 50 ms instead of a second, and
batches are larger and compressed.
"""

import json
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Producer

from benchmarks.peers import arguments

COMMIT_SECONDS = 1.0


def main() -> None:
    given = arguments.given()

    def undelivered(error: Any, _message: Any) -> None:
        if error is not None:
            sys.exit(f"not delivered: {error}")

    consumer = Consumer(
        {
            "bootstrap.servers": given.servers,
            "group.id": given.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 50,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": given.servers,
            "on_delivery": undelivered,
            # Without it a call of Python for each record: a program that counts would not leave that on.
            "delivery.report.only.error": True,
            "linger.ms": 20,
            "compression.type": "lz4",
        }
    )
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    consumer.subscribe([given.source])
    produce, sink, countries = producer.produce, given.sink, arguments.COUNTRIES
    commit_at = time.monotonic() + COMMIT_SECONDS
    uncommitted = False
    while not stopped:
        for message in consumer.consume(1000, 0.01):
            if message.error() is not None:
                sys.exit(f"not read: {message.error()}")
            click = json.loads(message.value() or b"")
            if click["ms"] % 10 == 0:
                continue
            value = json.dumps([click["user"], click["page"], click["ms"], countries[click["user"]]]).encode()
            while True:
                try:
                    produce(sink, value)
                    break
                except BufferError:
                    producer.poll(0.01)
            uncommitted = True
        producer.poll(0)
        if uncommitted and time.monotonic() >= commit_at:
            producer.flush()
            consumer.commit(asynchronous=False)
            commit_at = time.monotonic() + COMMIT_SECONDS
            uncommitted = False
    producer.flush()
    consumer.close()


if __name__ == "__main__":
    main()
