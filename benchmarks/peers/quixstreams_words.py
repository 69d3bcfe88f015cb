"""The word count in Quix Streams: lines from a topic, their words through a repartition topic, counts in RocksDB.

    python benchmarks/peers/quixstreams_words.py SERVERS SOURCE SINK GROUP DIRECTORY

A record for each word goes to the sink: the word and its count so far. The counts have a changelog topic, as is the
default, from which a process that starts elsewhere restores them. It has the clients' settings that the documentation
points to for throughput, and text as the format of all topics. Works until SIGTERM.
"""

import argparse
from typing import Any

from quixstreams import Application


def count(_word: str, state: Any) -> int:
    counted: int = state.get("count", 0) + 1
    state.set("count", counted)
    return counted


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("sink")
    parser.add_argument("group")
    parser.add_argument("directory")
    given = parser.parse_args()
    application = Application(
        broker_address=given.servers,
        consumer_group=given.group,
        auto_offset_reset="earliest",
        processing_guarantee="at-least-once",
        consumer_extra_config={"fetch.queue.backoff.ms": 50},
        producer_extra_config={"linger.ms": 20, "compression.type": "lz4"},
        state_dir=given.directory,
        loglevel="ERROR",
    )
    source = application.topic(given.source, value_deserializer="str")
    sink = application.topic(given.sink, key_serializer="str", value_serializer="str")
    words = application.dataframe(source).apply(lambda line: line.split(), expand=True)
    keyed = words.group_by(
        lambda word: word,
        name="word",
        key_serializer="str",
        key_deserializer="str",
        value_serializer="str",
        value_deserializer="str",
    )
    keyed.apply(count, stateful=True).apply(str).to_topic(sink)
    application.run()


if __name__ == "__main__":
    main()
