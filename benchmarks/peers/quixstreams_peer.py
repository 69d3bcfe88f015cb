"""Quix Streams, with the clients' settings that its documentation points to for throughput.

With `--words` the word count: lines to words, through a repartition topic, and a record for each word with its count so
far, with text as the format of all topics. The counts are in RocksDB in the directory and, as is the default, in a
changelog topic, from which a process that starts elsewhere restores them. With `--clicks` the JSON pipeline, whose
topics are read and written by the JSON serializers.
"""

from typing import Any

from quixstreams import Application

from benchmarks.peers import arguments


def count(_word: str, state: Any) -> int:
    counted: int = state.get("count", 0) + 1
    state.set("count", counted)
    return counted


def main() -> None:
    given = arguments.given()
    application = Application(
        broker_address=given.servers,
        consumer_group=given.group,
        auto_offset_reset="earliest",
        processing_guarantee="at-least-once",
        consumer_extra_config={"fetch.queue.backoff.ms": 50},
        producer_extra_config={"linger.ms": 20, "compression.type": "lz4"},
        loglevel="ERROR",
        state_dir=given.words or given.clicks,
    )
    if given.words:
        lines = application.topic(given.source, value_deserializer="str")
        counts = application.topic(given.sink, key_serializer="str", value_serializer="str")
        words = application.dataframe(lines).apply(lambda line: line.split(), expand=True)
        keyed = words.group_by(
            lambda word: word,
            name="word",
            key_serializer="str",
            key_deserializer="str",
            value_serializer="str",
            value_deserializer="str",
        )
        keyed.apply(count, stateful=True).apply(str).to_topic(counts)
    else:
        clicks = application.topic(given.source, value_deserializer="json")
        published = application.topic(given.sink, value_serializer="json")
        parsed = application.dataframe(clicks).apply(lambda click: (click["user"], click["page"], click["ms"]))
        kept = parsed.filter(lambda click: click[2] % 10 != 0)
        kept.apply(lambda click: (*click, arguments.COUNTRIES[click[0]])).to_topic(published)
    application.run()


if __name__ == "__main__":
    main()
