"""`acker top`."""

from acker_cli.commands.options import argument, command, flag, option
from acker_cli.settings import LoadedSettings


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

    from acker_cli.cluster.connection import configured_kafka, only_topology
    from acker_cli.console import standard_error
    from acker_cli.interruption import Interrupted, interruptible
    from acker_cli.views.top import print_once, show
    from inspection.observer import Observer
    from kafka_clients.catalogue import Catalogue

    kafka = configured_kafka(loaded)
    catalogue = Catalogue(kafka)
    with interruptible():
        with standard_error().status("asking the cluster …"):
            manifest = catalogue.manifest(name or only_topology(catalogue.manifests()))
            observer = Observer(kafka, manifest)
        with closing(observer):
            observer.open()
            if once:
                print_once(observer, as_json=json_)
                return
            with suppress(Interrupted):  # Ctrl-C is how it ends
                show(observer, interval, as_json=json_)
