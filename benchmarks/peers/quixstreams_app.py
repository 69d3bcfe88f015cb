"""Quix Streams. Tuned: the clients' settings that its documentation points to for throughput."""

import argparse

from quixstreams import Application


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("sink")
    parser.add_argument("group")
    parser.add_argument("--tuned", action="store_true")
    given = parser.parse_args()
    application = Application(
        broker_address=given.servers,
        consumer_group=given.group,
        auto_offset_reset="earliest",
        processing_guarantee="at-least-once",
        consumer_extra_config={"fetch.queue.backoff.ms": 50} if given.tuned else None,
        producer_extra_config={"linger.ms": 20, "compression.type": "lz4"} if given.tuned else None,
        loglevel="ERROR",
    )
    source = application.topic(given.source, value_deserializer="bytes")
    sink = application.topic(given.sink, value_serializer="bytes")
    application.dataframe(source).apply(lambda value: value.upper()).to_topic(sink)
    application.run()


if __name__ == "__main__":
    main()
