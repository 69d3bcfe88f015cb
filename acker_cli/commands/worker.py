"""`acker worker`."""

from acker_cli.commands.options import METRICS_PORT, command, flag, option
from acker_cli.settings import LoadedSettings


@command(
    "worker",
    ("acker worker", "serve all topologies of the cluster, also topologies published later"),
    ("acker worker --topology word-count", "only one; start it on as many machines as you like"),
    ("acker worker --topology word-count --json", "with its statistics, twice a second"),
    ("acker worker --metrics-port 9464", "with metrics at 127.0.0.1:9464/metrics, and /health"),
    flags={"metrics.port": (int | None, METRICS_PORT)},
)
def worker(
    loaded: LoadedSettings,
    topology: str | None = option("NAME", "The only topology to serve, by its name in acker.topologies."),
    json_: bool = flag("--json", "Print the statistics as JSON lines."),
) -> None:
    """Run an acker worker: track the tuple trees of topologies and notify their spouts of the outcomes.

    It serves all topologies in acker.topologies, starts to serve a topology when it is published, and stops when it is
    deleted; with --topology it serves only one. All workers of a topology share its partitions.

    Runs until SIGTERM or Ctrl-C, and gives its partitions to the other workers in order.
    """
    from acker_cli.console import log_to_stderr, standard_output
    from acker_cli.interruption import interruptible
    from acker_cli.processes.metrics_server import check_port
    from acker_cli.processes.worker import run_worker
    from kafka_clients.catalogue import Catalogue

    log_to_stderr(loaded.settings.log_level)
    kafka = loaded.cluster()
    check_port(loaded.settings.metrics)
    with interruptible():
        Catalogue(kafka).reach()
    run_worker(topology, kafka, loaded.settings, standard_output() if json_ else None)
