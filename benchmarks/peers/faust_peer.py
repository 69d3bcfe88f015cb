"""Faust: the JSON pipeline only, `--clicks DIRECTORY`. Records are not awaited one by one, which is much faster.

The agent acks an event after it has buffered the result, and the worker commits it: a result that is not delivered by
then may be lost. Faust's documentation describes this for throughput.
"""

import sys
from typing import Any

import faust

from benchmarks.peers import arguments

GIVEN = arguments.given()
app = faust.App(
    GIVEN.group,
    broker=f"kafka://{GIVEN.servers}",
    store="memory://",
    datadir=GIVEN.clicks,
    consumer_auto_offset_reset="earliest",
    producer_compression_type="lz4",
    producer_linger=0.02,
    producer_max_batch_size=1_000_000,
    stream_buffer_maxsize=65_536,
    topic_disable_leader=True,
    topic_partitions=2,
    web_enabled=False,
)
source = app.topic(GIVEN.source, value_serializer="json", acks=True)
sink = app.topic(GIVEN.sink, value_serializer="json")


def parse(click: Any) -> tuple[int, str, int]:
    return click["user"], click["page"], click["ms"]


@app.agent(source)
async def pipeline(clicks: Any) -> None:
    async for click in clicks:
        user, page, ms = parse(click)
        if ms % 10:
            sink.send_soon(value=[user, page, ms, arguments.COUNTRIES[user]])


if __name__ == "__main__":
    sys.argv[1:] = ["worker", "--loglevel", "error", "--without-web"]
    app.main()
