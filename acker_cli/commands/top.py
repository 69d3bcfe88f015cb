"""`acker top`: a topology's figures, once or again and again, on a terminal of 80 columns or more."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from acker_cli.commands.options import argument, command, flag, only_topology, option
from acker_cli.console import print_json, standard_error, standard_output
from acker_cli.interruption import Interrupted, interruptible
from acker_cli.settings import LoadedSettings
from acker_cli.views.states import state_line

if TYPE_CHECKING:
    from inspection.health.findings import Finding
    from inspection.observer import Observer
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
_FIRST_REPORT_SECONDS: Final = 5.0
"""How long the first report of a process may take, in seconds."""
_PRINTED_COLUMNS: Final = 160
"""How wide it is where there is no terminal."""


@command(
    "top",
    ("acker top word-count", "its figures, drawn again every two seconds"),
    ("acker top", "of the only topology on the cluster"),
    ("acker top word-count --once", "print them once"),
    ("acker top word-count --once --json | jq '.components[] | {name, lag}'", "for a script"),
    ("acker top word-count --json --interval 10", "a line of JSON every ten seconds"),
)
def top(
    loaded: LoadedSettings,
    name: str | None = argument(
        "TOPOLOGY", "The topology's name in acker.topologies; may be left out if there is only one.", None
    ),
    once: bool = flag("--once", "Print its figures once, and end."),
    json_: bool = flag("--json", "Print JSON, one line for each time; docs/inspection.md describes it."),
    interval: float = option("SECONDS", "Between two times that the figures are drawn.", default=2.0, min=0.2),
) -> None:
    """Show what a running topology does: rates, latencies, lags, and the acker's partitions.

    It reads the statistics that the topology's processes write to the topic TOPOLOGY.stats once a second, and the lags
    of their consumer groups. Without a terminal, the tables are printed one below the other. Ctrl-C ends it.
    """
    from contextlib import closing, suppress

    from inspection.observer import Observer
    from kafka_clients.catalogue import Catalogue

    kafka = loaded.cluster()
    catalogue = Catalogue(kafka)
    with interruptible():
        with standard_error().status("asking the cluster …"):
            manifest = catalogue.manifest(name or only_topology(catalogue.manifests()))
            observer = Observer(kafka, manifest)
        with closing(observer):
            observer.open()
            if once:
                observer.await_processes(_FIRST_REPORT_SECONDS)
                _print(observer, standard_output(), as_json=json_)
                return
            with suppress(Interrupted):  # Ctrl-C is how it ends
                _show(observer, interval, as_json=json_)


def _show(observer: "Observer", seconds: float, *, as_json: bool) -> NoReturn:
    """Shows the figures at an interval until it is interrupted."""
    output = standard_output()
    if as_json or not output.is_terminal or output.is_dumb_terminal:
        while True:
            _print(observer, output, as_json=as_json)
            if not as_json:
                output.print()
            observer.follow(seconds)
    with Live(console=output, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_drawn(observer, output.width), refresh=True)
            observer.follow(seconds)


def _print(observer: "Observer", output: Console, *, as_json: bool) -> None:
    if as_json:
        from inspection.health.verdict import as_json as as_json_of

        snapshot = observer.snapshot()
        print_json({**snapshot, **as_json_of(observer.findings(snapshot))})
        return
    if not output.is_terminal:
        output.width = _PRINTED_COLUMNS
    output.print(_drawn(observer, output.width))


def _drawn(observer: "Observer", width: int) -> RenderableType:
    from inspection.observer import has_processes

    snapshot = observer.snapshot()
    notes = [] if has_processes(snapshot) else [observer.no_statistics]
    return screen(snapshot, width, observer.findings(snapshot), notes)


def screen(
    snapshot: "Snapshot", width: int, findings: "Sequence[Finding]" = (), notes: Iterable[str] = ()
) -> RenderableType:
    """The verdict, the snapshot as tables that fit `width` columns, and below them counts of errors, and notes."""
    from acker_cli.views.findings import verdict_lines

    words = Text.assemble("topology ", (snapshot["topology"], "bold"), f", rates over {snapshot['window_seconds']:g} s")
    if snapshot["control"] not in ("", "running"):
        words.append(f", {snapshot['control']}", "yellow")
    if dead_letters := snapshot["dead_letters"]:
        words.append(f", {dead_letters:,} dead letter{'' if dead_letters == 1 else 's'}", "yellow")
    parts: list[RenderableType] = [words, "", *verdict_lines(findings), "", _components(snapshot["components"], width)]
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
        words = [_failed(component["failed"])] if any(component["failed"].values()) else []
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


def _failed(reasons: Mapping[str, int]) -> str:
    from tuple_tree.messages import FailReason

    failed = f"failed {sum(reasons.values()):,}"
    if not any(reasons[reason] for reason in reasons if reason != FailReason.FAILED.word):
        return failed
    return f"{failed} ({', '.join(f'{reason} {count:,}' for reason, count in sorted(reasons.items()) if count)})"


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
        f"{len(workers)} acker worker{'' if len(workers) == 1 else 's'}: {owned} of {len(partitions)} partitions, "
        f"{short(rate)} entries/s, {short(trees)} open trees, the oldest {short(max(ages))} s old"
    )
