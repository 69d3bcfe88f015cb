"""`acker dashboard`."""

from typing import Annotated

import typer

from acker_cli.options import ConfigOption, ServersOption, SetOption, assigned, examples, help_of


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "dashboard",
        help=help_of(dashboard),
        epilog=examples(
            ("acker dashboard", "all topologies of the cluster, for browsers of this machine"),
            ("acker dashboard --topology word-count --open", "only one, and open the browser"),
            ("acker dashboard --host 0.0.0.0", "for other machines"),
            ("ACKER_DASHBOARD__TOKEN=$(cat token) acker dashboard --host 0.0.0.0", "with a token of your own"),
            ("curl -H 'Authorization: Bearer …' localhost:8420/api/snapshot", "the figures, for programs"),
        ),
    )(dashboard)


def dashboard(
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The only topology to show, by its name in acker.topologies.", show_default=False
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where to listen; 127.0.0.1, which only this machine reaches, unless said "
            "[dim](ACKER_DASHBOARD__HOST)[/].",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Where to listen; 8420 unless said, 0 takes a free one [dim](ACKER_DASHBOARD__PORT)[/].",
            show_default=False,
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
) -> None:
    """Show topologies in the browser: graph, findings of the doctor, figures, last hour, failures, dead letters.

    It only shows; it changes nothing. What it prints is the address to open, with the token in it. The token is made at
    every start, unless it is set in ACKER_DASHBOARD__TOKEN or the file: a command line can be read by everybody.

    With dashboard.certificate and dashboard.key it speaks HTTPS. Browsers may ask for this machine by an address,
    as localhost, or by the names of the setting dashboard.names.

    Runs until Ctrl-C.
    """
    import webbrowser

    from acker_cli.cluster import configured_cluster
    from acker_cli.console import standard_error, standard_output
    from acker_cli.dashboard import check_dashboard_port, dashboard_served
    from acker_cli.interruption import interruptible
    from acker_cli.logs import log_to_stderr
    from acker_cli.setting_layers import Flags, load
    from kafka_clients.catalogue import Catalogue

    loaded = load(Flags(config, bootstrap_servers, assigned(set_, {"dashboard.host": host, "dashboard.port": port})))
    log_to_stderr(loaded.settings.log_level)
    kafka = configured_cluster(loaded).kafka
    check_dashboard_port(loaded.settings.dashboard)
    with interruptible(is_service=True):
        with standard_error().status("asking the cluster …"):
            catalogue = Catalogue(kafka)
            if topology is None:
                catalogue.topics()
            else:
                catalogue.manifest(topology)
        with dashboard_served(kafka, loaded.settings.dashboard, topology) as served:
            standard_output().print(served.address, markup=False)
            if served.listens_everywhere:
                standard_error().print("other machines open it by an address of this one in its place", markup=False)
            standard_error().print("Ctrl-C stops it", markup=False)
            if open_:
                webbrowser.open(served.address)
            served.wait()
