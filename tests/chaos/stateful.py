"""A state under faults: totals of keys, which each message changes once for each of its parts."""

import json
from collections import defaultdict
from typing import Any, Final

from spout_sdk import BasicBolt, BasicCollector, FailTupleError, Topology, Tuple, declare
from spout_sdk.state import StatefulBolt
from tests.chaos.arena import PARTS
from tests.kafka.sdk_rig import Cluster, value
from tests.packs import tuples_in
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.names import state_topic, tuples_topic
from tuple_tree.state_records import is_system

KEYS: Final = 40
_FAILS_EACH: Final = 20
"""One call in this number fails its tuple after its first emit."""


def key_of(number: int, part: int) -> str:
    return f"key-{(number + part) % KEYS}"


class SplitKeys(BasicBolt):
    streams = (declare({"number": int, "part": int, "key": str}),)
    calls = 0

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.calls += 1
        number = tuple_["number"]
        for part in range(PARTS):
            collector.emit((number, part, key_of(number, part)))
            if part == 0 and self.calls % _FAILS_EACH == 0:
                raise FailTupleError("one call in twenty")


class Totals(StatefulBolt):
    state = {"count": int, "sum": int}
    streams = (declare({"number": int, "part": int, "key": str, "count": int}),)

    def update(self, total: dict[str, int], tuple_: Tuple) -> dict[str, int]:
        return {"count": total["count"] + 1, "sum": total["sum"] + tuple_["number"]}

    def emit(self, key: str, total: dict[str, int], tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["number"], tuple_["part"], key, total["count"]))


def wrong_keys(topology: Topology, cluster: Cluster, messages: int) -> int:
    """How many keys have other totals than those of all messages."""
    wanted: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for number in range(messages):
        for part in range(PARTS):
            total = wanted[key_of(number, part)]
            total[0] += 1
            total[1] += number
    found: dict[str, Any] = {}
    for record in cluster.records(state_topic(topology.name, "totals")):
        key: Any = record.key()
        if not is_system(key):
            found[key.decode()] = [*json.loads(value(record)).values()]
    return sum(found.get(each) != wanted.get(each) for each in {*wanted, *found})


def decreases(topology: Topology, cluster: Cluster) -> int:
    """How often a count of a key was emitted after a greater one."""
    stream = topology.manifest.stream("totals", "default")
    latest: dict[str, int] = {}
    back = 0
    records = [
        record
        for record in cluster.records(tuples_topic(topology.name, "sink"))
        if dict(record.headers() or ())[SOURCE_HEADER] == b"totals/default"
    ]
    for each in tuples_in(records, stream):
        _, _, name, count = each.values
        back += count < latest.get(name, 0)
        latest[name] = count
    return back
