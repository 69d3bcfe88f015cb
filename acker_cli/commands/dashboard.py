"""`acker dashboard`, and the dashboard of `acker run`."""

from typing import TYPE_CHECKING

from acker_cli.commands.options import command, flag, option
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from acker_cli.settings.sections import DashboardSection, KafkaProperties
    from inspection.dashboard import DashboardServer

_HOST = "Where to listen; 127.0.0.1, which only this machine reaches, by default [dim](ACKER_DASHBOARD__HOST)[/]."
_PORT = "Where to listen; 8420 by default, 0 takes a free one [dim](ACKER_DASHBOARD__PORT)[/]."


@command(
    "dashboard",
    ("acker dashboard", "all topologies of the cluster, for browsers of this machine"),
    ("acker dashboard --topology word-count --open", "only one, and open the browser"),
    ("acker dashboard --host 0.0.0.0", "for other machines"),
    ("ACKER_DASHBOARD__TOKEN=$(cat token) acker dashboard --host 0.0.0.0", "with a token of your own"),
    ("curl -H 'Authorization: Bearer …' localhost:8420/api/snapshot", "the figures, for programs"),
    flags={
        "dashboard.host": (str | None, option("ADDRESS", _HOST, "--host")),
        "dashboard.port": (int | None, option("PORT", _PORT, "--port")),
    },
)
def dashboard(
    loaded: LoadedSettings,
    topology: str | None = option("NAME", "The only topology to show, by its name in acker.topologies."),
    open_: bool = flag("--open", "Open the dashboard in the browser."),
) -> None:
    """Show topologies in the browser: graph, findings of the doctor, figures, last hour, failures, dead letters.

    The dashboard is read-only. The command prints the address to open, with a token. Each start generates the token,
    unless ACKER_DASHBOARD__TOKEN or the file sets it; it is not an option, because all users can read command lines.

    With dashboard.certificate and dashboard.key it serves HTTPS. Browsers may use an IP address, localhost, or the
    names of the setting dashboard.names.

    Runs until Ctrl-C.
    """
    import webbrowser

    from acker_cli.console import log_to_stderr, standard_error, standard_output
    from acker_cli.interruption import interruptible
    from kafka_clients.catalogue import Catalogue

    log_to_stderr(loaded.settings.log_level)
    kafka = loaded.cluster()
    check_dashboard_port(loaded.settings.dashboard)
    with interruptible(is_service=True):
        with standard_error().status("asking the cluster …"):
            catalogue = Catalogue(kafka)
            if topology is None:
                catalogue.topics()
            else:
                catalogue.manifest(topology)
        with dashboard_served(kafka, loaded.settings.dashboard, topology) as served:
            standard_output().print(served.address)
            if served.listens_everywhere:
                standard_error().print("other machines open it by an address of this one in its place")
            standard_error().print("Ctrl-C stops it")
            if open_:
                webbrowser.open(served.address)
            served.wait()


def dashboard_served(kafka: "KafkaProperties", section: "DashboardSection", topology: str | None) -> "DashboardServer":
    """The dashboard of all topologies or one, to be entered."""
    from inspection.dashboard import DashboardServer, Source
    from inspection.http_server import ServedAt

    at = ServedAt(section.host, section.port, section.token, section.names.split(","), section.certificate, section.key)
    return DashboardServer(Source(kafka), at, topology)


def check_dashboard_port(section: "DashboardSection") -> None:
    """Makes sure that the dashboard can be served, before anything else is started."""
    from inspection.http_server import listening_at

    listening_at(section.host, section.port, "dashboard").close()
