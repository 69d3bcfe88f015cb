"""A tree as JSON: ids as 16 hexadecimal digits, times in milliseconds since the epoch."""

from typing import Any

from inspection.notation import show_root
from inspection.trace.records import LogEntry
from inspection.trace.tree import Node, Tree
from inspection.trace.verdict import verdict


def tree_as_json(tree: Tree) -> dict[str, Any]:
    reason = tree.reason
    return {
        "root": show_root(tree.root),
        "status": str(tree.status),
        "reason": None if reason is None else reason.word,
        "verdict": verdict(tree),
        "spout": tree.spout,
        "began_ms": tree.init.at_ms if tree.init else None,
        "ended_ms": tree.ended_ms,
        "checksum": show_root(tree.checksum),
        "tuples": [_tuple(tree, node) for node in tree.nodes],
        "log": [_entry(entry) for entry in tree.entries],
        "unexplained": [_entry(entry) for entry in tree.unexplained],
        "notices": [
            {
                **_members(outcome, "topic", "partition", "offset", "at_ms"),
                "outcome": "acked" if outcome.reason is None else outcome.reason.word,
                "message": outcome.message,
            }
            for outcome in tree.outcomes
        ],
    }


def tuple_name(node: Node) -> str:
    """`bolt/task@offset`, and `.index` if its record has several."""
    return f"{node.delivery.bolt}/{node.delivery.task}@{node.delivery.place}"


def _tuple(tree: Tree, node: Node) -> dict[str, Any]:
    delivery = node.delivery
    return {
        "tuple": tuple_name(node),
        **_members(delivery, "bolt", "task", "offset", "index"),
        "offsets": list(node.offsets),
        **_members(delivery, "source", "stream"),
        "edge": show_root(delivery.edge),
        **_members(delivery, "roots", "preview"),
        "traceparent": delivery.traceparent or None,
        "emitted_ms": delivery.emitted_ms,
        "state": str(node.state),
        "acks": [_entry(entry) for entry in node.acks],
        "parents": [tuple_name(tree.nodes[at]) for at in node.parents],
        "parents_are": str(node.origin),
        "committed": node.committed,
        "behind": node.behind,
    }


def _entry(entry: LogEntry) -> dict[str, Any]:
    return {
        **_members(entry, "kind", "writer", "at_ms", "partition", "offset"),
        "val": show_root(entry.val),
        "message": entry.message,
        "dropped": entry.dropped or None,
    }


def _members(of: object, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}
