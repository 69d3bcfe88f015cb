"""`Client`: sends messages to the topic of a spout, and waits for their outcomes and answers.

    from spout_sdk.client import Client

- `client`: the API, on an event loop.
- `calls`: which open call a record belongs to; no I/O.
- `target`: the topics of a client; `records`: decodes the records that it reads.
- `sending`, `reading`: the threads of its producer and its consumer.
"""

from spout_sdk.client.client import Client
from spout_sdk.outcome import MessageOutcome
from tuple_tree.outcome_records import OutcomeRecord, outcome_stream

__all__ = [
    "Client",
    "MessageOutcome",
    "OutcomeRecord",
    "outcome_stream",
]
