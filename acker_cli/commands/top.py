"""`acker top`: a topology's figures, once or again and again, on a terminal of 80 columns or more."""

from typing import TYPE_CHECKING, Final, NoReturn

from rich.console import Console, RenderableType
from rich.live import Live

from acker_cli.commands.options import argument, command, flag, only_topology, option
from acker_cli.console import print_json, standard_error, standard_output
from acker_cli.interruption import Interrupted, interruptible
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from inspection.observer import Observer

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
    once: bool = flag("--once", "Print the figures once, and end."),
    json_: bool = flag("--json", "Print JSON, one line for each update; docs/reference/json.md describes it."),
    interval: float = option("SECONDS", "The interval between two updates, in seconds.", default=2.0, min=0.2),
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
    from acker_cli.views.screen import screen
    from inspection.observer import has_processes

    snapshot = observer.snapshot()
    notes = [] if has_processes(snapshot) else [observer.no_statistics]
    return screen(snapshot, width, observer.findings(snapshot), notes)
