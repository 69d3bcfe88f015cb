"""Bytewax, with a recovery store, without which a crash would lose its position, and an epoch, so a commit, a second.

With `--words` the word count: lines to words, by key to a stateful step, and a record for each word with its count so
far; with `--clicks` the JSON pipeline, by msgspec with `--msgspec`. The store is in the directory.

Settings for throughput: ten times as many records a poll, since each batch is flushed on its own, compression, and a
consumer that polls again sooner: the best of what was tried (2,000 to 20,000 records, with and without compression and
a linger).
"""

import json
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import bytewax.operators as op
import msgspec
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

from benchmarks.peers import arguments


def count(counted: int | None, _word: str) -> tuple[int, int]:
    now = (counted or 0) + 1
    return now, now


def to_message(word_and_count: tuple[str, int]) -> Any:
    word, counted = word_and_count
    return KafkaSinkMessage(word.encode(), str(counted).encode())


def parse(message: Any) -> tuple[int, str, int]:
    click = json.loads(message.value)
    return click["user"], click["page"], click["ms"]


def is_kept(click: tuple[int, str, int]) -> bool:
    return click[2] % 10 != 0


def enrich(click: tuple[int, str, int]) -> tuple[int, str, int, str]:
    return *click, arguments.COUNTRIES[click[0]]


class Click(msgspec.Struct):
    user: int
    page: str
    ms: int


class Result(NamedTuple):
    user: int
    page: str
    ms: int
    country: str


DECODE: Final = msgspec.json.Decoder(Click).decode
ENCODE: Final = msgspec.json.Encoder().encode


def parse_typed(message: Any) -> Click:
    return DECODE(message.value)


def is_kept_typed(click: Click) -> bool:
    return click.ms % 10 != 0


def enrich_typed(click: Click) -> Result:
    return Result(click.user, click.page, click.ms, arguments.COUNTRIES[click.user])


def to_json_typed(result: Result) -> Any:
    return KafkaSinkMessage(None, ENCODE(result))


def to_json(click: tuple[int, str, int, str]) -> Any:
    return KafkaSinkMessage(None, json.dumps(click).encode())


def main() -> None:
    given = arguments.given()
    flow = Dataflow(given.group.replace(".", "-"))
    messages = kop.input(
        "source",
        flow,
        brokers=[given.servers],
        topics=[given.source],
        add_config={"fetch.queue.backoff.ms": "50"},
        batch_size=10_000,
    ).oks
    if given.words:
        words = op.flat_map("split", messages, lambda message: message.value.decode().split())
        counts = op.stateful_map("count", op.key_on("word", words, lambda word: word), count)
        written = op.map("to-message", counts, to_message)
    elif given.msgspec:
        kept = op.filter("filter", op.map("parse", messages, parse_typed), is_kept_typed)
        written = op.map("format", op.map("enrich", kept, enrich_typed), to_json_typed)
    else:
        kept = op.filter("filter", op.map("parse", messages, parse), is_kept)
        written = op.map("format", op.map("enrich", kept, enrich), to_json)
    # The sink ends the program if the queue of the producer is full.
    writing = {"compression.type": "lz4", "queue.buffering.max.messages": "1000000"}
    kop.output("sink", written, brokers=[given.servers], topic=given.sink, add_config=writing)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    store = Path(given.words or given.clicks)
    init_db_dir(store, 1)
    cli_main(flow, epoch_interval=timedelta(seconds=1), recovery_config=RecoveryConfig(str(store)))


if __name__ == "__main__":
    main()
