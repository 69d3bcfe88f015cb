"""A source with figures of its own, as the contract has them."""

import json
from collections.abc import Sequence
from typing import Any

from inspection.dashboard.recent import JsonObject
from inspection.dashboard.source import Source
from inspection.errors import (
    MessageNotFoundError,
    RootNotFoundError,
    SearchLimitError,
    StateKeyError,
    StateKeyNotFoundError,
    StatusError,
)
from inspection.message_status import LastFailure, MessageStatus, SourceMessage, State
from inspection.message_status.output import status_as_json
from inspection.notation import show_root
from inspection.trace.output import tree_as_json
from inspection.trace.tree import build_tree
from kafka_clients.errors import BrokerUnreachableError, UnknownTopologyError
from tests.unit.inspection.forest import Forest
from tuple_tree.messages import FailReason

AT = 1_760_000_000_000
GONE, LARGE = 0xDEAD, 0xBEEF
"""Roots that are not found."""
OLDEST, EMPTY = 0xA9ED, 7
"""The root that is open for longest in every partition but one."""

_COUNTED = ("emitted", "transferred", "executed", "acked")
# fmt: off


def component(name: str, kind: str, **figures: Any) -> dict[str, Any]:
    return {
        "name": name, "kind": kind, "head": name, "tasks": 2, "owned_tasks": 2, "processes": 1,
        **{f"{each}_per_second": 0.0 for each in (*_COUNTED, "failed")},
        "totals": dict.fromkeys(_COUNTED, 0), "failed": {}, "pending": 0, "max_pending": None, "lag": None,
        "execute_latency": None, "process_latency": None, "complete_latency": None,
        "errors": 0, "last_error": "", "dead_letters": 0, "undelivered": 0, "late_tuples": 0, "external": False,
        "oldest_input": "", "oldest_input_seconds": 0.0, "unread": None,
        "stalled_seconds": 0.0, "stalled_by": "", "failing": False,
        "busy": None, "skew": None, "loads": [], "sources": [], "state": None,
        **figures,
    }


FINDINGS: list[dict[str, Any]] = [
    {
        "severity": "warning", "check": "lag", "subject": "words.split", "component": "split",
        "found": "Group words.split has done nothing.", "remedy": "See whether the process hangs.",
    },
    {
        "severity": "note", "check": "topics", "subject": "acker.topologies", "component": None,
        "found": "It may not be seen.", "remedy": "Allow <i>Describe</i>.",
    },
]


def snapshot(at: int = AT) -> dict[str, Any]:
    owned = {
        "partition": 0, "owner": "host/17", "pending": 12, "orphans": 0, "oldest_seconds": 1.2,
        "clock_lag_seconds": 0.04, "rebuilding": True, "rebuild_left": 1500,
    }
    edges = [
        ("lines", "default", "split", "shuffle", 1234.5),
        ("split", "default", "count", "fields", 9876.0),
        ("lines", "marks", "count", "all", None),
    ]
    return {
        "topology": "words", "control": "running", "at": at, "window_seconds": 5.0,
        "components": [
            component(
                "lines", "spout", emitted_per_second=1234.5, acked_per_second=1200.25, failed_per_second=2.5,
                failed={"timeout": 3, "failed": 12}, pending=4321, sources=["orders"],
                complete_latency={"p50": 1.25, "p99": 98.7},
            ),
            component(
                "split", "bolt", executed_per_second=1234.5, lag=17, process_latency={"p50": 0.125, "p99": 0.5},
                busy=0.934, skew=1.96, oldest_input="words.tuples.split[1] offset 42", oldest_input_seconds=31.5,
                loads=[
                    {"task": 0, "process": "host/18", "executed_per_second": 1210.0, "busy": 0.934, "lag": 17},
                    {"task": 1, "process": None, "executed_per_second": None, "busy": None, "lag": None},
                ],
                last_error='ValueError: <img src="https://elsewhere.example/x" onerror=alert(1)>', errors=2,
            ),
            component(
                "count", "bolt", executed_per_second=99999.0, lag=None,
                state={
                    "key": ["word", "page"], "guarantee": "each tuple once", "keys": 1_203_441, "bytes": 310_000_000,
                    "identities": 2_400,
                    "restore": {
                        "tasks": [1, 2], "done": 0.45, "records": 600, "records_per_second": 312_000.4, "left": 733,
                        "seconds": 2.0,
                    },
                },
            ),
        ],
        "edges": [
            dict(zip(("source", "stream", "target", "grouping", "tuples_per_second"), edge, strict=True))
            for edge in edges
        ],
        "acker": [owned, {**dict.fromkeys(owned), "partition": 1}],
        "workers": [{"name": "host/17", "partitions": [0], "entries_per_second": 2222.0, "seen_seconds_ago": 0.4}],
        "dead_letters": 1,
        "verdict": FINDINGS[0]["found"], "findings": FINDINGS, "checked": {"at": at - 500, "problem": None},
    }


def failure(
    root: str, reason: str, message: str = "", by: str | None = None, source: str | None = None
) -> dict[str, Any]:
    return {
        "root": root, "spout": "lines", "task": 1, "reason": reason, "message": message, "at": AT - 1000,
        "by": by, "source": source,
        "trace": f"acker trace {root} --topology words",
    }


FAILURES = [
    failure("00000000000000ff", "failed", "no <b>disk</b>", by="split/1"),
    failure("8000000000000001", "timeout", source="orders[3] offset 42"),
]
OVERVIEW = {"control": "running", "processes": 3, "severity": None, "verdict": "healthy"}
MESSAGE = status_as_json(
    MessageStatus(
        *("words", "lines", SourceMessage("orders", 3, 42, b"<b>7</b>", AT), State.WAITING, None, 2, AT),
        failure=LastFailure("failed", "split", "no <i>disk</i>", AT),
        root=0xFF,
    ),
    AT,
)
DEAD_LETTERS = [
    {
        "offset": 0, "at": AT - 2000, "topic": "words.tuples.split", "of_partition": 1, "of_offset": 42,
        "reason": "truncated", "detail": "the record ends too early", "by": "split/1", "value": "abc",
        "replayed": AT - 1000,
    }
]
# fmt: on


def tree(root: int) -> dict[str, Any]:
    """A tree that has timed out: a line of two words, one still open."""
    forest = Forest(7, (root,))
    (line,) = forest.begin(root, "split", 1)
    words = [forest.emit((line,), "count", task) for task in (0, 1)]
    for at in (line, words[0]):
        forest.ack(at)
    return tree_as_json(build_tree(forest.records(root, failed=FailReason.TIMEOUT)))


class Figures(Source):
    """Figures that a test changes; nothing is read from Kafka."""

    def __init__(self) -> None:
        self.names = ["words"]
        self.states: dict[str, JsonObject] = {}
        self.shown = snapshot()
        self.broken = False
        self.closed = False
        self.failed = [*FAILURES]
        rates = [f"{word}_per_second" for word in ("emitted", "executed", "acked", "failed")]
        names = (*rates, "complete_p50", "complete_p99", "process_p50", "process_p99", "busy")
        self.points = [{"at": AT - 5000 * back, **dict.fromkeys(names, 1.5)} for back in range(120, -1, -1)]
        self.traced: list[tuple[str, int, int | None]] = []
        self.oldest_of: list[tuple[str, int]] = []

    def topologies(self) -> list[str]:
        self._check()
        return self.names

    def overview(self) -> Sequence[JsonObject]:
        self._check()
        return [{**OVERVIEW, "topology": name, **self.states.get(name, {})} for name in self.names]

    def snapshot(self, topology: str) -> JsonObject:
        self._check(topology)
        return {**self.shown, "topology": topology}

    def findings(self, topology: str) -> JsonObject:
        self._check(topology)
        return {**{name: self.shown[name] for name in ("verdict", "findings")}, **self.shown["checked"]}

    def history(self, topology: str, component: str | None = None) -> JsonObject:
        self._check(topology)
        return {"topology": topology, "component": component, "points": self.points}

    def failures(self, topology: str) -> Sequence[JsonObject]:
        self._check(topology)
        return self.failed

    def dead_letters(self, topology: str) -> list[JsonObject]:
        self._check(topology)
        return [*DEAD_LETTERS]

    def trace(self, topology: str, root: int, ended_ms: int | None) -> JsonObject:
        self._check(topology)
        self.traced.append((topology, root, ended_ms))
        if root == GONE:
            raise RootNotFoundError(f"the ack log has no entry of root {show_root(root)}. Search further back")
        if root == LARGE:
            raise SearchLimitError("the dashboard searches for 60 s at most")
        return {"topology": topology, "trees": [tree(root)]}

    def oldest(self, topology: str, partition: int) -> JsonObject:
        self._check(topology)
        self.oldest_of.append((topology, partition))
        if partition == EMPTY:
            raise RootNotFoundError(f"no tree is open in partition {partition}. Look again")
        return {"topology": topology, "trees": [tree(OLDEST)]}

    def state(self, topology: str, bolt: str, key: Sequence[str]) -> JsonObject:
        self._check(topology)
        if len(key) != 2:
            raise StateKeyError(f"a key is one value for each field (word, page), not {len(key)}")
        if key[0] == "gone":
            raise StateKeyNotFoundError(f"words.state.count has no key {' '.join(key)}")
        named = dict(zip(("word", "page"), key, strict=True))
        value = {"text": "<b>x</b>", "id": 2**53 + 1}
        entry = {"key": named, "value": value, "task": 1, "changed_ms": AT, "text": json.dumps(value)}
        return {"topology": topology, "bolt": bolt, **entry}

    def message(self, topology: str, key: str | None, position: str | None) -> JsonObject:
        self._check(topology)
        if key == "gone":
            raise MessageNotFoundError("orders has no message with key gone: check the key")
        if not key and not position:
            raise StatusError("name the message by one of key= and offset=")
        return {"topology": topology, "messages": [MESSAGE]}

    def close(self) -> None:
        self.closed = True

    def _check(self, topology: str | None = None) -> None:
        if self.broken:
            raise BrokerUnreachableError("no broker answers at nowhere:9092. Start one")
        if topology is not None and topology not in self.names:
            raise UnknownTopologyError(topology, self.names)
