"""The figures of a topology, as `acker top`, `acker run` and `acker demo` show them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from acker_cli.views.states import state_line
from inspection.notation import counted

if TYPE_CHECKING:
    from inspection.health.findings import Finding
    from inspection.tracks import Latency
    from inspection.view import ComponentView, PartitionView, Snapshot

_WIDE: Final = 110
"""Columns from which on both latencies of a bolt are shown."""
_PARTITIONS: Final = 16
"""The most partitions of the ack log that are shown."""
_SHORTEST_NAME: Final = 8
_LONGEST_NAME: Final = 34
_NUMBER_WIDTH: Final = 5
_LATENCY_WIDTH: Final = 11
_THOUSAND: Final = 1_000


def screen(
    snapshot: "Snapshot", width: int, findings: "Sequence[Finding] | None" = None, notes: Iterable[str] = ()
) -> RenderableType:
    """The snapshot as tables that fit `width` columns, and below them counts of errors, and notes.

    The verdict on top follows from the findings; there is none where nothing was checked.
    """
    from acker_cli.views.findings import verdict_lines

    words = Text.assemble("topology ", (snapshot["topology"], "bold"), f", rates over {snapshot['window_seconds']:g} s")
    if snapshot["control"] not in ("", "running", "unknown"):
        words.append(f", {snapshot['control']}", "yellow")
    if dead_letters := snapshot["dead_letters"]:
        words.append(f", {counted(dead_letters, 'dead letter')}", "yellow")
    verdict: list[RenderableType] = [] if findings is None else [*verdict_lines(findings), ""]
    parts: list[RenderableType] = [words, "", *verdict, _components(snapshot["components"], width)]
    states = [(each["name"], state) for each in snapshot["components"] if (state := each["state"]) is not None]
    if states:
        parts += ["", *(state_line(*each) for each in states)]
    lines = [*_counts(snapshot["components"]), *(Text(note, "red") for note in notes)]
    if lines:
        parts += ["", *lines]
    if snapshot["acker"]:
        parts += ["", _ackers(snapshot)]
    if any(
        one["owner"] is None or one["rebuilding"] or (one["clock_lag_seconds"] or 0) >= 1 for one in snapshot["acker"]
    ):
        parts += ["", _acker(snapshot["acker"], width)]
        if len(snapshot["acker"]) > _PARTITIONS:
            parts.append(f"… the {_PARTITIONS} with the oldest trees, of {len(snapshot['acker'])}; --json shows all")
    return Group(*parts)


def short(number: float | None) -> str:
    """A number in five characters or so; a dash where it is not known."""
    if number is None:
        return "-"
    if number < 1:
        return f"{number:.2f}".rstrip("0").rstrip(".")
    if number < 10:
        return f"{number:.1f}".removesuffix(".0")
    if number < 10 * _THOUSAND:
        return f"{number:.0f}"
    for unit in ("k", "M"):
        number /= _THOUSAND
        if number < _THOUSAND:
            return f"{number:.1f}".removesuffix(".0") + unit if number < 100 else f"{number:.0f}{unit}"
    return f"{number / _THOUSAND:.1f}G"


def _components(components: "list[ComponentView]", width: int) -> RenderableType:
    is_wide = width >= _WIDE
    headings = ["tasks", "emit/s", "exec/s", "ack/s", "fail/s", "pending", "lag"]
    # The last: of a spout from emit to ack, of a bolt from execute to ack; how long its part takes.
    table = _table(width, "component", [*headings, *(["execute ms"] if is_wide else []), "p50/p99 ms"])
    for component in _with_heads(components):
        is_spout, is_chained = component["kind"] == "spout", component["head"] != component["name"]
        lag, failed = component["lag"], component["failed_per_second"]
        cells: list[RenderableType] = [
            f"└ {component['name']}" if is_chained else component["name"],
            _tasks(component),
            short(component["emitted_per_second"]),
            "" if is_spout else short(component["executed_per_second"]),
            short(component["acked_per_second"]),
            Text(short(failed), "red" if failed else ""),
            short(component["pending"]),
            "" if (is_spout or is_chained) and lag is None else short(lag),
        ]
        if is_wide:
            cells.append("" if is_spout else _latency(component["execute_latency"]))
        cells.append(_latency(component["complete_latency"] if is_spout else component["process_latency"]))
        table.add_row(*cells)
    return table


def _with_heads(components: "list[ComponentView]") -> "list[ComponentView]":
    """Sorts components: chained bolts follow the component in whose tasks they run."""
    order = {each["name"]: number for number, each in enumerate(components)}
    return sorted(components, key=lambda each: (order[each["head"]], each["head"] != each["name"], order[each["name"]]))


def _table(width: int, name: str, headings: Iterable[str]) -> Table:
    """Columns of numbers after one of names, which is cut where there is no room for all."""
    gap = 2 if width >= _WIDE else 1
    table = Table(box=None, padding=(0, gap, 0, 0))
    widths = {each: max(len(each), _LATENCY_WIDTH if each.endswith(" ms") else _NUMBER_WIDTH) for each in headings}
    room = width - sum(each + gap for each in widths.values()) - gap
    longest = max(_SHORTEST_NAME, min(_LONGEST_NAME, room))
    table.add_column(name, style="cyan", max_width=longest, no_wrap=True, overflow="ellipsis")
    for heading, least in widths.items():
        table.add_column(heading, justify="right", no_wrap=True, min_width=least)
    return table


def _tasks(component: "ComponentView") -> Text:
    owned, tasks = component["owned_tasks"], component["tasks"]
    # An external component may be run by something that reports nothing.
    is_fine = owned == tasks or component["external"]
    return Text(str(tasks)) if is_fine else Text(f"{owned}/{tasks}", "red")


def _latency(latency: "Latency | None") -> str:
    return "-" if latency is None else f"{short(latency['p50'])}/{short(latency['p99'])}"


def _counts(components: "list[ComponentView]") -> list[Text]:
    lines = []
    for component in components:
        words = [f"failed {by_reason(component['failed'])}"] if any(component["failed"].values()) else []
        counts = {
            "errors": component["errors"],
            "dead letters": component["dead_letters"],
            "undelivered": component["undelivered"],
            "late tuples": component["late_tuples"],
        }
        words += [f"{what} {count:,}" for what, count in counts.items() if count]
        if component["retrying"]:
            words.append(
                f"{component['retrying']:,} to be {'emitted' if component['kind'] == 'spout' else 'executed'} again"
            )
        if component["last_error"]:
            words.append(component["last_error"])
        if words:
            line = Text.assemble((component["name"], "cyan"), ": ", ("; ".join(words), "yellow"))
            line.no_wrap, line.overflow = True, "ellipsis"
            lines.append(line)
    return lines


def by_reason(failed: Mapping[str, int]) -> str:
    """Failures in words, such as `12 (by a bolt: 10, timeout: 2)`."""
    from tuple_tree.messages import FailReason

    words = {FailReason.FAILED.word: "by a bolt"}
    reasons = ", ".join(f"{words.get(reason, reason)}: {count:,}" for reason, count in sorted(failed.items()) if count)
    return f"{sum(failed.values()):,} ({reasons})" if reasons else "0"


def _acker(partitions: "list[PartitionView]", width: int) -> RenderableType:
    table = _table(width, "acker worker", ["ack log", "pending", "orphans", "oldest s", "lag s", "to rebuild"])
    shown = partitions
    if len(partitions) > _PARTITIONS:
        # Those without an owner first: their trees wait for one.
        by_age = sorted(partitions, key=lambda one: (one["owner"] is not None, -(one["oldest_seconds"] or 0.0)))
        shown = sorted(by_age[:_PARTITIONS], key=lambda one: one["partition"])
    for one in shown:
        lag = one["clock_lag_seconds"]
        table.add_row(
            Text("no owner", "red") if one["owner"] is None else one["owner"],
            str(one["partition"]),
            short(one["pending"]),
            short(one["orphans"]),
            short(one["oldest_seconds"]),
            Text(short(lag), "yellow" if lag else ""),
            Text(short(one["rebuild_left"]), "yellow") if one["rebuilding"] else "",
        )
    return table


def _ackers(snapshot: "Snapshot") -> str:
    """All acker workers in a line; their partitions are shown if something is unusual about one."""
    workers, partitions = snapshot["workers"], snapshot["acker"]
    ages = [one["oldest_seconds"] or 0.0 for one in partitions]
    owned = sum(one["owner"] is not None for one in partitions)
    rate, trees = (sum(each["entries_per_second"] for each in workers), sum(one["pending"] or 0 for one in partitions))
    return (
        f"{counted(len(workers), 'acker worker')}: {owned} of {len(partitions)} partitions, "
        f"{short(rate)} entries/s, {short(trees)} open trees, the oldest {short(max(ages))} s old"
    )
