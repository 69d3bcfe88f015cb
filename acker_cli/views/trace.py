"""Tuple trees drawn in the terminal."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree as Drawing

from acker_cli.console import unlimited
from inspection.notation import show_root, show_time
from inspection.trace.output import verdict
from inspection.trace.records import LogEntry, Node, Origin, State
from inspection.trace.tree import Status, Tree

_MOST_SIBLINGS: Final = 20
"""How many children of a tuple are drawn; what is open comes first."""
_STYLES: Final = {State.ACKED: "green", State.OPEN: "bold red", State.FAILED: "bold red", State.UNCLEAR: "yellow"}
_VERDICTS: Final = {Status.ACKED: "green", Status.FAILED: "red", Status.OPEN: "bold red", Status.NO_INIT: "yellow"}


def print_trees(output: Console, topology: str, trees: Sequence[Tree]) -> None:
    unlimited(output)
    for number, tree in enumerate(trees):
        if number:
            output.print()
        output.print(_drawn(topology, tree))
        for line in _remarks(tree):
            output.print(line)
        output.print(verdict(tree), style=_VERDICTS[tree.status])


def _drawn(topology: str, tree: Tree) -> Drawing:
    heading = Text(f"root {show_root(tree.root)} of {topology}", "bold")
    if tree.init is not None:
        at = f"[{tree.init.partition}]@{tree.init.offset}"
        heading.append(f"  begun {show_time(tree.init.at_ms)} by {tree.init.writer}, ack log {at}", "dim")
    drawing = Drawing(heading)
    children = tree.children
    drawn: set[Node] = set()
    tops = children.get(None, [])
    certain = [node for node in tops if node.emitter == tree.spout]
    _branch(drawing, tree, certain, children, drawn)
    for emitter in sorted({node.emitter for node in tops if node.emitter != tree.spout}):
        several = [node for node in tops if node.emitter == emitter]
        group = drawing.add(Text(f"emitted by `{emitter}`, parent tuple unknown", "yellow"))
        _branch(group, tree, several, children, drawn)
    return drawing


def _branch(
    drawing: Drawing, tree: Tree, members: list[Node], children: dict[Node | None, list[Node]], drawn: set[Node]
) -> None:
    # No recursion: a tuple that goes round in a circle makes a chain as long as it likes.
    todo = [(drawing, members)]
    while todo:
        branch, siblings = todo.pop()
        by_state = sorted(siblings, key=lambda node: node.state is State.ACKED)
        shown = set(by_state[:_MOST_SIBLINGS])
        for node in siblings:
            if node in shown and node not in drawn:
                drawn.add(node)
                todo.append((branch.add(_label(tree, node)), children.get(node, [])))
        if left := by_state[_MOST_SIBLINGS:]:
            open_ = sum(node.state is not State.ACKED for node in left)
            what = f"{open_:,} of them not acked" if open_ else "all acked"
            branch.add(Text(f"… and {len(left):,} more, {what}", "dim"))


def _label(tree: Tree, node: Node) -> Text:
    text = Text()
    if node.is_dead_letter:
        return text.append(f"{node.name}  {node.preview}", "red").append(f"  {_at(tree, node.emitted_ms)}", "dim")
    text.append(node.name, "cyan")
    if node.stream != "default":
        text.append(f" {node.stream}")
    text.append(f"  {node.preview}")
    if len(node.chain) > 1:
        text.append(f"  through {', '.join(node.chain[1:])}", "cyan")
    text.append(f"  edge {show_root(node.edge)}, emitted {_at(tree, node.emitted_ms)}", "dim")
    text.append(f"  {_state(tree, node)}", _STYLES[node.state])
    if len(node.parents) > 1:
        names = ", ".join(parent.name for parent in node.parents)
        text.append(f"  child of one or more of {names}", "dim")
    if node.origin is Origin.INFERRED and node.parents:
        text.append("  (its parent is not acked)", "dim")
    if node.origin is Origin.UNREPORTED:
        text.append("  (no ack holds it: the execution that emitted it was interrupted)", "yellow")
    if len(node.offsets) > 1:
        text.append(f"  (sent {len(node.offsets)} times, offsets {', '.join(map(str, node.offsets))})", "yellow")
    if node.roots > 1:
        text.append(f"  (in {node.roots} trees)", "dim")
    return text


def _state(tree: Tree, node: Node) -> str:
    if node.acks:
        return "acked " + ", ".join(f"{_at(tree, ack.at_ms)} by {ack.writer}" for ack in node.acks)
    if node.state is State.ACKED:
        return "acked"
    if node.state is State.FAILED:
        at = next((entry.at_ms for entry in tree.fails if entry.component == node.bolt), None)
        return "failed" if at is None else f"failed {_at(tree, at)}"
    lag = node.lag
    far = "" if lag is None else f", lag {lag:,}" if lag > 0 else f", committed {node.committed:,}"
    return f"{node.state}{far}"


def _remarks(tree: Tree) -> list[str]:
    lines = [f"failed by {entry.writer} {_at(tree, entry.at_ms)}: {entry.message}" for entry in tree.fails]
    resets = sum(entry.kind == "reset" for entry in tree.entries)
    if resets:
        lines.append(f"its time-out was reset {resets:,} times")
    own = [tree.init] if tree.is_in_chain else []
    lines += [
        f"{_entry(tree, entry)} is of tuples that were not found" for entry in tree.unexplained if entry not in own
    ]
    lines += [
        f"{_entry(tree, entry)} was dropped by the acker: {entry.dropped}" for entry in tree.entries if entry.dropped
    ]
    for outcome in tree.outcomes:
        result = "acked" if outcome.reason is None else f"failed, {outcome.reason.word}"
        lines.append(
            f"notice {outcome.topic}[{outcome.partition}]@{outcome.offset} {_at(tree, outcome.at_ms)}: {result}"
        )
    return lines


def _entry(tree: Tree, entry: LogEntry) -> str:
    an = "an" if entry.kind in ("ack", "init") else "a"
    return f"{an} {entry.kind} of {entry.writer} {_at(tree, entry.at_ms)}"


def _at(tree: Tree, at_ms: int) -> str:
    return show_time(at_ms) if tree.init is None else f"{at_ms - tree.init.at_ms:+,} ms"
