"""The process of `acker worker`: the worker of one topology, or of all, with its statistics, metrics and health."""

import json
import signal
import threading

from prometheus_client.registry import Collector
from rich.console import Console

from acker_cli.interruption import Interrupted, stopped_by_signals
from acker_cli.processes.acker_pool import ACKER_LOOP
from acker_cli.processes.metrics_server import Health, Loop, metrics_served
from acker_cli.processes.own_figures import worker_findings
from acker_cli.settings.sections import KafkaProperties, Settings
from acker_worker.metrics import ServingCollector, WorkerCollector
from acker_worker.service import AckerService
from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker, WorkerSettings


def run_worker(topology: str | None, kafka: KafkaProperties, settings: Settings, output: Console | None) -> None:
    """Runs the worker of one topology, or of all, until a signal stops it; raises `Interrupted` after Ctrl-C.

    `output` takes the statistics as lines of JSON.
    """
    worker_settings = WorkerSettings(**settings.worker.model_dump())
    loop = Loop(ACKER_LOOP)
    printing = threading.Lock()
    broken: list[BrokenPipeError] = []

    def on_stats(name: str, stats: WorkerStats) -> None:
        if output is None:
            return
        try:
            with printing:
                output.print(json.dumps({"topology": name, **stats.to_dict()}, separators=(",", ":")))
        except BrokenPipeError as error:
            # The reader of standard output is gone, for all topologies, not only for the one of this thread.
            broken.append(error)
            worker.stop()

    worker: AckerWorker | AckerService
    if topology is not None:
        latest = WorkerStats()

        def on_own_stats(stats: WorkerStats) -> None:
            nonlocal latest
            latest = stats
            loop.turned()
            on_stats(topology, stats)

        worker = AckerWorker(topology, kafka, worker_settings, on_own_stats, instance=settings.instance_name)
        health = Health(loop.heartbeat_ages, lambda: worker_findings({ACKER_LOOP: (topology, latest)}))
        collectors: list[Collector] = [WorkerCollector(lambda: {topology: latest})]
    else:
        worker = service = AckerService(kafka, worker_settings, on_stats, loop.turned, instance=settings.instance_name)

        def stats_of_all() -> dict[str, WorkerStats]:
            return {name: served.stats for name, served in service.topologies().items()}

        health = Health(
            lambda: {
                **loop.heartbeat_ages(),
                **{_loop_of(name): age for name, age in service.heartbeat_ages().items()},
            },
            lambda: worker_findings({_loop_of(name): (name, stats) for name, stats in stats_of_all().items()}),
        )
        serving = ServingCollector(lambda: {name: served.serving for name, served in service.topologies().items()})
        collectors = [WorkerCollector(stats_of_all), serving]
    # Not `interruptible`: a worker stops between two records, never during one.
    with stopped_by_signals(worker.stop) as received, metrics_served(settings.metrics, collectors, health):
        worker.run()
    if broken:
        raise broken[0]
    if signal.SIGINT in received:
        raise Interrupted(signal.SIGINT)


def _loop_of(topology: str) -> str:
    return f"{ACKER_LOOP} of {topology}"
