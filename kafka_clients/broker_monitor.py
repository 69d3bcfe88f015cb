"""A client's statistics: whether records are unread, and whether its metadata still has a broker.

A client forgets brokers that are missing in the metadata it is given. A broker that has just started may give metadata
without any, itself included; the client then forgets all, and begins again with its bootstrap servers. A second such
answer at the wrong moment takes that back, and the client is left without brokers for good, and does not report it:
it happens where the only broker, or all of them, start again (https://github.com/confluentinc/librdkafka/issues/5301).
A producer fails to deliver then. A consumer would wait for ever; its statistics show it.
"""

import json
from typing import Any, Final

LOST: Final = (
    "its client has lost all brokers, as librdkafka may when all of them start again, and would wait for ever. Nothing "
    "is lost: start it again"
)

_STATISTICS_MS: Final = 5_000
_SURE: Final = 2  # statistics in a row: between forgetting all and beginning again there is a moment without any
_NO_BROKERS: Final = ("logical", "internal")  # sources of entries that are no brokers, such as the coordinator's role


class BrokerMonitor:
    """Whether the metadata of one client, which has to be polled, still have a broker, reachable or not."""

    def __init__(self) -> None:
        self._without = 0
        self.unread = False  # whether records of its partitions wait to be read, as far as it knows

    @property
    def settings(self) -> dict[str, Any]:
        return {"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self.on_stats}

    @property
    def lost(self) -> bool:
        return self._without >= _SURE

    def on_stats(self, statistics: str) -> None:
        values = json.loads(statistics)
        known = [broker for broker in values["brokers"].values() if broker["source"] not in _NO_BROKERS]
        self._without = 0 if known else self._without + 1
        read = [part for topic in values.get("topics", {}).values() for part in topic["partitions"].values()]
        # By what it fetches next, not by what was read last: behind that there may be only transaction markers.
        self.unread = any(
            part["fetch_state"] == "active" and (part["fetchq_cnt"] > 0 or 0 <= part["next_offset"] < part["ls_offset"])
            for part in read
        )
