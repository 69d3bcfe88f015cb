"""A loop of confluent-kafka, as one writes it by hand for throughput: the JSON pipeline in one function, no framework.

It reads batches of 500, produces with a delivery report for each record, and once a second commits the offsets of what
was delivered.
"""

import json
import signal
import time
from typing import Any

from confluent_kafka import Consumer, Message, Producer

from benchmarks.peers import arguments
from benchmarks.peers.bytewax_peer import DECODE, ENCODE, Click, Result


def transformed(value: bytes) -> bytes | None:
    click = json.loads(value)
    user, page, ms = click["user"], click["page"], click["ms"]
    return json.dumps((user, page, ms, arguments.COUNTRIES[user])).encode() if ms % 10 else None


def transformed_typed(value: bytes) -> bytes | None:
    click: Click = DECODE(value)
    if not click.ms % 10:
        return None
    return ENCODE(Result(click.user, click.page, click.ms, arguments.COUNTRIES[click.user]))


def main() -> None:
    given = arguments.given()
    transform = transformed_typed if given.msgspec else transformed
    servers = {"bootstrap.servers": given.servers}
    consumer = Consumer(
        {**servers, "group.id": given.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    producer = Producer(
        {**servers, "compression.type": "lz4", "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    failed, running = [], True

    def report(error: Any, record: Message) -> None:
        if error is not None:
            failed.append((error, record.offset()))

    def stop(_number: int, _frame: Any) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe([given.source])
    committed_at = time.monotonic()
    while running:
        for message in consumer.consume(500, 0.1):
            if message.error() is None and (value := transform(message.value() or b"")) is not None:
                producer.produce(given.sink, value, on_delivery=report)
        producer.poll(0)
        if time.monotonic() - committed_at >= 1:
            producer.flush()
            if failed:
                raise RuntimeError(f"{len(failed)} records were not delivered: {failed[0]}")
            consumer.commit(asynchronous=False) if consumer.position(consumer.assignment()) else None
            committed_at = time.monotonic()
    consumer.close()


if __name__ == "__main__":
    main()
