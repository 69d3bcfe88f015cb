"""Bytewax, with a recovery store, without which it would begin anew after a crash.

An epoch, and so a commit, every second. Tuned: ten times as many records a poll, since each batch is flushed on its
own, compression, and a consumer that looks again sooner: the best of what was tried (2,000 to 20,000 records, with and
without compression and a linger).
"""

import argparse
import signal
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main


def upper(message: Any) -> Any:
    return KafkaSinkMessage(None, message.value.upper())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("sink")
    parser.add_argument("group")
    parser.add_argument("--tuned", action="store_true")
    given = parser.parse_args()
    reading = {"fetch.queue.backoff.ms": "50"} if given.tuned else None
    writing = {"compression.type": "lz4"} if given.tuned else None
    flow = Dataflow(given.group.replace(".", "-"))
    source = kop.input(
        "source",
        flow,
        brokers=[given.servers],
        topics=[given.source],
        add_config=reading,
        batch_size=10_000 if given.tuned else 1_000,
    )
    kop.output(
        "sink", op.map("upper", source.oks, upper), brokers=[given.servers], topic=given.sink, add_config=writing
    )
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory)
        init_db_dir(store, 1)
        cli_main(flow, epoch_interval=timedelta(seconds=1), recovery_config=RecoveryConfig(str(store)))


if __name__ == "__main__":
    main()
