"""Whether a topology has reached the state that was requested, by the figures of its processes. Pure."""

from inspection.notation import counted
from inspection.unfinished_messages import Unfinished
from inspection.view import ComponentView, Snapshot
from tuple_tree.control import ControlState


def left_in_spouts(snapshot: Snapshot, state: ControlState) -> list[str]:
    """The unfinished work of spouts, a line each; empty if they emit nothing and their trees have ended.

    A spout without a process emits nothing; `left_in_sources` has what its last process had open.
    """
    lines: list[str] = []
    for spout in _of_kind(snapshot, "spout"):
        name, running = spout["name"], spout["processes"]
        if not running:
            continue
        if spout["control"] != [state]:
            known = ", ".join(spout["control"]) or "nothing: it runs an earlier version"
            lines.append(f"spout {name}: its {counted(running, 'process', 'processes')} know {known}")
            continue
        if spout["pending"]:
            lines.append(f"spout {name}: {counted(spout['pending'], 'tree')} open")
        if state == "draining" and spout["retrying"]:
            lines.append(f"spout {name}: {counted(spout['retrying'], 'message')} to be emitted again")
    return lines


def left_in_sources(unfinished: Unfinished, snapshot: Snapshot) -> list[str]:
    """The messages that spouts have emitted and not committed as done, a line for each spout."""
    running = {spout["name"] for spout in _of_kind(snapshot, "spout") if spout["processes"]}
    lines: list[str] = []
    for name, places in sorted(unfinished.items()):
        (topic, partition), runs = min(places.items())
        count = sum(end - begin for of_place in places.values() for begin, end in of_place)
        remedy = "" if name in running else "; none of its processes runs: start it, and it emits them again"
        lines.append(
            f"spout {name}: {counted(count, 'emitted message')} not committed as done, the first one at offset "
            f"{runs[0][0]} of {topic}[{partition}]{remedy}"
        )
    return lines


def holding_up(snapshot: Snapshot) -> list[str]:
    """Why trees stay open: no acker runs, or a bolt makes no progress, a line each."""
    lines: list[str] = []
    if snapshot["acker"] and not snapshot["workers"]:
        lines.append("no acker worker is running, so no tree ends: start one with acker worker")
    for bolt in _of_kind(snapshot, "bolt"):
        if bolt["paused_by"]:
            lines.append(f"bolt {bolt['name']} pauses since {bolt['paused_seconds']:.0f} s: {bolt['paused_by']}")
        elif bolt["stalled_by"]:
            lines.append(f"bolt {bolt['name']}: no progress for {bolt['stalled_seconds']:.0f} s, {bolt['stalled_by']}")
        elif bolt["lag"] and not bolt["processes"] and not bolt["external"]:
            lines.append(f"bolt {bolt['name']}: none of its processes runs, and {counted(bolt['lag'], 'record')} wait")
    return lines


def left_in_bolts(snapshot: Snapshot) -> list[str]:
    """The unfinished work of bolts, a line each; the lags have to be newer than the end of the spouts' trees."""
    lines: list[str] = []
    for bolt in _of_kind(snapshot, "bolt"):
        name = bolt["name"]
        if bolt["lag"]:
            lines.append(f"bolt {name}: {counted(bolt['lag'], 'record')} not executed or not committed")
        elif bolt["pending"]:
            lines.append(f"bolt {name}: {counted(bolt['pending'], 'input')} open")
    return lines


def running(snapshot: Snapshot) -> list[str]:
    """The components whose processes run, a line each."""
    return [
        f"{each['name']}: {counted(each['processes'], 'process', 'processes')}"
        for each in snapshot["components"]
        if each["processes"] and each["head"] == each["name"] and not each["external"]
    ]


def _of_kind(snapshot: Snapshot, kind: str) -> list[ComponentView]:
    return [each for each in snapshot["components"] if each["kind"] == kind]
