"""Faust (faust-streaming). Tuned: larger reads and buffers, and a producer that lingers for larger batches.

An agent acknowledges an event when it asks for the next, after the send of this one was handed to the producer.
"""

import argparse
import sys
import tempfile
from typing import Any

import faust


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("sink")
    parser.add_argument("group")
    parser.add_argument("--tuned", action="store_true")
    given = parser.parse_args()
    tuned: dict[str, Any] = (
        {
            "broker_max_poll_records": 5_000,
            "stream_buffer_maxsize": 65_536,
            "producer_linger": 0.02,
            "producer_max_batch_size": 1_048_576,
            "broker_commit_every": 100_000,
            "broker_commit_interval": 1.0,
        }
        if given.tuned
        else {}
    )
    with tempfile.TemporaryDirectory() as directory:
        app = faust.App(
            given.group,
            broker=f"kafka://{given.servers}",
            value_serializer="raw",
            consumer_auto_offset_reset="earliest",
            topic_disable_leader=True,
            web_enabled=False,
            datadir=directory,
            **tuned,
        )
        source = app.topic(given.source, value_serializer="raw")
        sink = app.topic(given.sink, value_serializer="raw")

        @app.agent(source)
        async def upper(values: Any) -> None:
            async for value in values:
                await sink.send(value=value.upper())

        sys.argv = ["faust", "worker", "--without-web", "-l", "error"]
        app.main()


if __name__ == "__main__":
    main()
