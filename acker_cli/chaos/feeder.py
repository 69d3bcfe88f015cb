"""Writes messages to source topics at a rate, from the lines of files, again and again."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from acker_cli.cluster.local import Feed
from acker_cli.errors import ProcessError, SettingsError
from kafka_clients.client_settings import for_producer
from kafka_clients.repeated_lines import client_logger

_LAST_SECONDS: Final = 60.0
# A broker may be away for longer than a message waits by default.
_PATIENT: Final = {"enable.idempotence": True, "message.timeout.ms": 0}


@contextmanager
def fed(kafka: Mapping[str, Any], feeds: Sequence[Feed], rate: float) -> Iterator[None]:
    """Writes `rate` messages a second to the topic of each feed, until the end of the block; all are delivered then.

    Raises:
        ProcessError: if a message is not delivered within a minute after the block.
    """
    lines = {feed.topic: Path(feed.path).read_bytes().splitlines() for feed in feeds}
    for topic, of_topic in lines.items():
        if not of_topic:
            raise SettingsError(f"--feed {topic}: the file has no line")
    producer = Producer({**for_producer(kafka), **_PATIENT, "logger": client_logger("acker_cli")})
    ending = threading.Event()
    threads = [
        threading.Thread(target=_feed, args=(producer, topic, of_topic, rate, ending), name=f"feed {topic}")
        for topic, of_topic in lines.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    if left := producer.flush(_LAST_SECONDS):
        raise ProcessError(f"{left:,} messages of --feed were not delivered within {_LAST_SECONDS:g} s: see the log")


def _feed(producer: Producer, topic: str, lines: Sequence[bytes], rate: float, ending: threading.Event) -> None:
    due = time.monotonic()
    for line in cycle(lines):
        due += 1 / rate
        if ending.wait(max(0.0, due - time.monotonic())):
            return
        with suppress(BufferError):  # the broker is away: the message is left out
            producer.produce(topic, line)
        producer.poll(0)
