"""What the statistics of a client of librdkafka say: whether records wait, and whether it still knows of a broker.

A client forgets brokers that are missing in the metadata it is given. A broker that has just started may give metadata
without any, itself included; the client then forgets all, and is to begin again with its bootstrap servers. A second
such answer at the wrong moment takes that back, and the client is left with none, for good and without a word: it
happens where the only broker, or all of them, start again (https://github.com/confluentinc/librdkafka/issues/5301).
A producer tells of it by what it cannot deliver. A consumer would wait for ever; its statistics show what it knows.
"""

import json
from typing import Any, Final

LOST: Final = (
    "its client has lost all brokers, as librdkafka may when all of them start again, and would wait for ever. Nothing "
    "is lost: start it again"
)
"""What is to be said of it."""

_LOOK_MS: Final = 5_000
_SURE: Final = 2
"""Looks in a row: between forgetting all and beginning again there is a moment without any."""
_NO_BROKERS: Final = ("logical", "internal")
"""Sources of what librdkafka counts among brokers, though it is none, such as the coordinator's role."""


class BrokerMonitor:
    """Whether one client still knows of a broker, reachable or not. Its statistics come while it is polled.

    Attributes:
        unread: whether records of its partitions wait to be read, as far as it knows.
    """

    def __init__(self) -> None:
        self._without = 0
        self.unread = False

    @property
    def settings(self) -> dict[str, Any]:
        """The librdkafka properties by which the client tells."""
        return {"statistics.interval.ms": _LOOK_MS, "stats_cb": self.on_stats}

    @property
    def lost(self) -> bool:
        return self._without >= _SURE

    def on_stats(self, statistics: str) -> None:
        said = json.loads(statistics)
        known = [broker for broker in said["brokers"].values() if broker["source"] not in _NO_BROKERS]
        self._without = 0 if known else self._without + 1
        read = [part for topic in said.get("topics", {}).values() for part in topic["partitions"].values()]
        # By what it fetches next, not by what was read last: behind that there may be nothing but transactions' ends.
        self.unread = any(
            part["fetch_state"] == "active" and (part["fetchq_cnt"] > 0 or 0 <= part["next_offset"] < part["ls_offset"])
            for part in read
        )
