"""The status of a message of a spout's source: done, open, waiting for a retry, or not read yet.

    from inspection.message_status import status

    if status("shop", {"bootstrap.servers": "kafka-1:9092"}, key="ORDER-4711").is_done: ...

- `verdict`: the status of a message, from what was read; pure.
- `output`: a status as sentences and as JSON.
- `reader`: finds messages by key or position, and their statuses.
- `spouts`: the source partitions of spouts, with their committed offsets; roots of a message.
- `evidence`: the outcome, the dead letter, the last attempt and the last failure of a message.
- `key_search`: messages with a key. `outcome_topics`: topics of outcomes.
- `blocks`: reads partitions in blocks of offsets, from their end or their beginning; `partitioners`: where producers
  write a key.
"""

from inspection.message_status.reader import StatusReader, status
from inspection.message_status.verdict import (
    ComponentOfMessage,
    LastFailure,
    MessageStatus,
    SourceMessage,
    State,
)

__all__ = [
    "ComponentOfMessage",
    "LastFailure",
    "MessageStatus",
    "SourceMessage",
    "State",
    "StatusReader",
    "status",
]
