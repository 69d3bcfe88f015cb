"""A loop over confluent-kafka, as short as at least once can be: what a framework adds, it adds to this.

Tuned: a full consumer polls again after 50 ms instead of a second, and larger and compressed batches.
"""

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

    reading: dict[str, Any] = {"fetch.queue.backoff.ms": 50} if given.tuned else {}
    writing: dict[str, Any] = {"linger.ms": 20, "compression.type": "lz4"} if given.tuned else {}
    consumer = Consumer(
        {
            "bootstrap.servers": given.servers,
            "group.id": given.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **reading,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": given.servers,
            "on_delivery": undelivered,
            # Without it a call of Python for each record: a program that counts would not leave that on.
            "delivery.report.only.error": True,
            **writing,
        }
    )
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    consumer.subscribe([given.source])
    produce, sink = producer.produce, given.sink
    commit_at = time.monotonic() + COMMIT_SECONDS
    uncommitted = False
    while not stopped:
        for message in consumer.consume(1000, 0.01):
            if message.error() is not None:
                sys.exit(f"not read: {message.error()}")
            value = (message.value() or b"").upper()
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
