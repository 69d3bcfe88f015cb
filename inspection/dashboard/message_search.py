"""The search for a message of a spout's source, by its key or its position."""

import time
from collections.abc import Mapping
from shlex import join
from typing import Any

from inspection.dashboard.recent import JsonObject
from inspection.errors import StatusError
from inspection.message_status import StatusReader
from inspection.message_status.output import status_as_json
from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import Progress


def command_of(topology: str, key: str | None, position: str | None) -> str:
    """The command for the same search. Raises `StatusError` if it has no key and no position, or both."""
    if bool(key) == bool(position):
        raise StatusError(
            "name the message by one of key= and offset=, as in /api/message?key=ORDER-4711, or ?offset=3/120311"
        )
    return join(["acker", "status", topology, *(["--key", key] if key else ["--offset", position or ""])])


def search_message(
    topology: str, kafka: Mapping[str, Any], key: str | None, position: str | None, progress: Progress
) -> JsonObject:
    """The JSON of `acker status`; raises the errors of `StatusReader`."""
    with StatusReader(kafka, Catalogue(kafka).manifest(topology), progress) as reader:
        found = reader.of_key(key.encode()) if key else reader.of_position(position or "")
    now_ms = time.time_ns() // 1_000_000
    return {"topology": topology, "messages": [status_as_json(each, now_ms) for each in found]}
