"""The output of a trace: a sentence about a tree, and the tree as JSON.

In JSON, ids are 16 hexadecimal digits, times milliseconds since the epoch.
"""

from collections.abc import Iterable
from typing import Any, Final

from inspection.notation import counted, show_root
from inspection.trace.ack_matching import checksum
from inspection.trace.records import LogEntry, Node, Origin, State
from inspection.trace.tree import Status, Tree
from tuple_tree.messages import FailReason

_PLACES: Final = 3  # how many tasks are named; the others are counted


def verdict(tree: Tree) -> str:
    if tree.status is Status.ACKED:
        return _acked(tree)
    if tree.status is Status.FAILED:
        return f"failed, {_why(tree)}: {_open_parts(tree)}"
    if tree.status is Status.NO_INIT:
        return (
            f"no init: {counted(len(tree.tuples), 'tuple')} and {len(tree.entries)} entries of the ack log are of this "
            "root, but not its init, so no spout gets its outcome"
        )
    return f"open: {_open_parts(tree)}"


def _progress(tree: Tree, node: Node) -> str:
    """The progress of an open tuple's task, as a part of a sentence.

    A group's offset stops at the oldest input without an ack, as if all later ones were not executed either: acks of
    this tree that are later take precedence over it.
    """
    lag, where = node.lag, f"`{node.bolt}` task {node.task}"
    if chained := tree.chains.get(node.bolt):
        where += f" with {_names(chained)}, chained to it,"
    if node.state is State.FAILED:
        lag = None  # it commits what it failed
    if lag is not None and lag > 0:
        acked = [each.offset for each in tree.having(State.ACKED) if (each.bolt, each.task) == (node.bolt, node.task)]
        later = min((offset for offset in acked if offset > node.offset), default=None)
        if later is not None:
            return f"{where} has acked a later one, at offset {later}, but not offset {node.place}"
        if f"{node.bolt}/{node.task}" not in {entry.writer for entry in tree.fails}:
            return f"{where} lags by {counted(lag, 'record')}"
    elif lag is not None:
        if lag == 0:
            return f"{where} has done all before offset {node.place}, but not that"
        return f"{where} has committed beyond offset {node.place} without an ack of it"
    done = "failed" if node.state is State.FAILED else "has not acked"
    return f"{where} {done} offset {node.place}"


def _acked(tree: Tree) -> str:
    took = ""
    if tree.init is not None and tree.ended_ms is not None:
        took = f" after {max(0, tree.ended_ms - tree.init.at_ms):,} ms"
    letters = tree.dead_letters
    if letters:
        more = f" and {counted(len(letters) - 1, 'other')}" if len(letters) > 1 else ""
        took += f", with a dead letter{more} of `{letters[0].source}` ({letters[0].preview})"
    if not tree.tuples:
        if tree.spout in tree.chains:
            return f"acked{took}: none of its tuples has left the chain of `{tree.spout}`"
        return f"acked{took}: its tuples are not in the inboxes"
    strays = tree.having(State.OPEN, State.FAILED)
    acked = f"acked{took}: all of {counted(len(tree.tuples) - len(strays), 'tuple')}"
    if not strays:
        return acked
    return f"{acked}; {len(strays):,} more of an interrupted execution are open, and the spout does not wait for them"


def _why(tree: Tree) -> str:
    reason = tree.reason or FailReason.FAILED
    if reason is not FailReason.FAILED:
        return reason.word
    fail = tree.fails[0] if tree.fails else None
    message = next((outcome.message for outcome in tree.outcomes if outcome.message), fail.message if fail else "")
    by = f"by {fail.writer}" if fail else "by a bolt"
    return f"{by} ({message})" if message else by


def _open_parts(tree: Tree) -> str:
    open_, unclear = tree.having(State.OPEN, State.FAILED), tree.having(State.UNCLEAR)
    total = counted(len(tree.tuples), "tuple")
    if tree.is_in_chain:
        held = f"it is in the chain of `{tree.spout}` with {_names(tree.chains[tree.spout or ''])}"
        if not tree.tuples:
            return f"{held}; none of its tuples has left the chain"
        if not open_ and not unclear:
            return f"{held}; all of {total} that have left it were acked"
    if not tree.tuples and tree.spout in tree.chains:
        return f"none of its tuples has left the chain of `{tree.spout}`"
    if not tree.tuples:
        return "none of its tuples is in the inboxes: they were not delivered, or retention has deleted them"
    if open_:
        more = f"; of {len(unclear):,} more it is not clear" if unclear else ""
        return f"{len(open_):,} of {total}, {_progress_of_tasks(tree, open_)}{more}"
    if unclear:
        return f"{len(unclear):,} of {total} may be, {_progress_of_tasks(tree, unclear)}"
    again = [node for node in tree.nodes if len(node.acks) > 1 or len(node.offsets) > 1]
    unreported = [node for node in tree.nodes if node.origin is Origin.UNREPORTED]
    if again or unreported:
        node = (again or unreported)[0]
        how = "was executed more than once" if again else "comes from an execution that was interrupted"
        return (
            f"all of {total} were acked, but the one at offset {node.place} of `{node.bolt}` task {node.task} {how}, "
            "so the checksum cannot become zero and the tree ends with its time-out"
        )
    return f"all of {total} that were found were acked, but there are others, which are not in the inboxes"


def _progress_of_tasks(tree: Tree, nodes: list[Node]) -> str:
    """The first open tuple of each task, the tasks with the largest lag first."""
    first: dict[tuple[str, int], Node] = {}
    for node in sorted(nodes, key=lambda node: node.offset):
        first.setdefault((node.bolt, node.task), node)
    ordered = sorted(first.values(), key=lambda node: -(node.lag or 0))
    named = ", ".join(_progress(tree, node) for node in ordered[:_PLACES])
    if len(nodes) == 1 and nodes[0].preview:
        named += f" ({nodes[0].preview})"
    more = len(ordered) - _PLACES
    return f"{named}, and {more:,} tasks more" if more > 0 else named


def _names(components: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in components)


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
        "checksum": show_root(checksum(tree.entries)),
        "tuples": [_tuple(node) for node in tree.nodes],
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


def _tuple(node: Node) -> dict[str, Any]:
    return {
        "tuple": node.name,
        **_members(node, "bolt", "task", "offset", "index"),
        "offsets": list(node.offsets),
        **_members(node, "source", "stream"),
        "chain": list(node.chain or (node.source,)),
        "edge": show_root(node.edge),
        **_members(node, "roots", "preview"),
        "traceparent": node.traceparent or None,
        "emitted_ms": node.emitted_ms,
        "state": str(node.state),
        "acks": [_entry(entry) for entry in node.acks],
        "parents": [parent.name for parent in node.parents],
        "parents_are": str(node.origin),
        "committed": node.committed,
        "lag": node.lag,
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
