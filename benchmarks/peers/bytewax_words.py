"""The word count in Bytewax: lines from a topic, words by key to a stateful step, counts to a topic.

    python benchmarks/peers/bytewax_words.py SERVERS SOURCE SINK GROUP DIRECTORY

A record for each word goes to the sink: the word and its count so far. It has a recovery store, without which it would
begin anew after a crash, an epoch every second, and the settings of `bytewax_flow` with `--tuned`. Works until SIGTERM.
"""

import argparse
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main


def count(counted: int | None, _word: str) -> tuple[int, int]:
    now = (counted or 0) + 1
    return now, now


def to_message(word_and_count: tuple[str, int]) -> Any:
    word, counted = word_and_count
    return KafkaSinkMessage(word.encode(), str(counted).encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("sink")
    parser.add_argument("group")
    parser.add_argument("directory", type=Path)
    given = parser.parse_args()
    flow = Dataflow(given.group.replace(".", "-"))
    lines = kop.input(
        "source",
        flow,
        brokers=[given.servers],
        topics=[given.source],
        add_config={"fetch.queue.backoff.ms": "50"},
        batch_size=10_000,
    )
    words = op.flat_map("split", lines.oks, lambda message: message.value.decode().split())
    counts = op.stateful_map("count", op.key_on("word", words, lambda word: word), count)
    kop.output(
        "sink",
        op.map("to-message", counts, to_message),
        brokers=[given.servers],
        topic=given.sink,
        add_config={"compression.type": "lz4"},
    )
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    init_db_dir(given.directory, 1)
    cli_main(flow, epoch_interval=timedelta(seconds=1), recovery_config=RecoveryConfig(str(given.directory)))


if __name__ == "__main__":
    main()
