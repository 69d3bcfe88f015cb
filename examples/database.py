"""Books payments in PostgreSQL, each once, also after kills and replays.

DATABASE_URL=postgresql://… acker run examples.database:topology --local --feed payments=payments.jsonl

A line is one payment with its entries: [["ann", -500], ["bob", 500]]
"""

import json
import os
from collections.abc import Sequence

import psycopg

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    BatchBolt,
    KafkaSpout,
    OutputCollector,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.kafka_spout import Record

TABLES = """
CREATE TABLE IF NOT EXISTS entries (id text PRIMARY KEY, account text NOT NULL, cents bigint NOT NULL);
CREATE TABLE IF NOT EXISTS balances (account text PRIMARY KEY, cents bigint NOT NULL);
"""

BOOK = """
WITH booked AS (
    INSERT INTO entries (id, account, cents)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[])
    ON CONFLICT (id) DO NOTHING
    RETURNING account, cents
)
INSERT INTO balances (account, cents)
SELECT account, sum(cents) FROM booked GROUP BY account ORDER BY account
ON CONFLICT (account) DO UPDATE SET cents = balances.cents + excluded.cents
"""


def payment(record: Record) -> tuple[str, str]:
    """The id of a payment is its position in the topic, which a replay does not change."""
    return f"{record.topic()}/{record.partition()}/{record.offset()}", (record.value() or b"").decode()


class Entries(BasicBolt):
    """The id of an entry is its payment and its number in it: a payment always has the same entries, in this order."""

    streams = (declare({"id": str, "account": str, "cents": int}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for number, (account, cents) in enumerate(json.loads(tuple_["entries"])):
            collector.emit((f"{tuple_['payment']}/{number}", account, cents))


class Book(BatchBolt):
    """Books the tuples of a read in one statement, which is one transaction, and then acks them."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.connect()
        self.database.execute("SELECT pg_advisory_lock(1)")  # tables are created by one task at a time
        self.database.execute(TABLES)
        self.database.execute("SELECT pg_advisory_unlock(1)")

    def connect(self) -> None:
        self.database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        if self.database.closed:
            self.connect()
        ids, accounts, cents = zip(*(tuple_.values for tuple_ in tuples), strict=True)
        self.database.execute(BOOK, (list(ids), list(accounts), list(cents)))
        self.collector.ack_all(tuples)

    def cleanup(self) -> None:
        self.database.close()


builder = TopologyBuilder("bookkeeping")
builder.set_spout(
    "payments", KafkaSpout("payments", translate=payment, streams=[declare({"payment": str, "entries": str})])
)
builder.set_bolt("entries", Entries).shuffle_grouping("payments")
builder.set_bolt("book", Book, tasks=2).fields_grouping("entries", "account")
topology = builder.build()
