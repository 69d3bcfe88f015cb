"""What `acker worker` runs: the worker of one topology, or one of all, with its statistics, metrics and health."""

import dataclasses
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prometheus_client.registry import Collector
from rich.console import Console

from acker_cli.processes.acker_pool import ACKER_LOOP
from acker_cli.processes.metrics_server import Health, Loop
from acker_cli.settings.sections import KafkaProperties
from acker_worker.metrics import ServingCollector, WorkerCollector
from acker_worker.service import AckerService
from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker, WorkerSettings


@dataclass(frozen=True, slots=True)
class Working:
    run: Callable[[], None]  # works until `stop` is called
    stop: Callable[[], None]
    health: Health
    collectors: Sequence[Collector]


def one_topology(topology: str, kafka: KafkaProperties, settings: WorkerSettings, output: Console | None) -> Working:
    """The worker of one topology; `output` takes its statistics as lines of JSON."""
    loop = Loop(ACKER_LOOP)
    latest = WorkerStats()

    def on_stats(stats: WorkerStats) -> None:
        nonlocal latest
        latest = stats
        loop.turned()
        if output is not None:
            output.print(_line(topology, stats))

    worker = AckerWorker(topology, kafka, settings, on_stats)
    health = Health(loop.heartbeat_ages, lambda: {ACKER_LOOP: latest.stalled})
    return Working(worker.run, worker.stop, health, [WorkerCollector(lambda: {topology: latest})])


def all_topologies(kafka: KafkaProperties, settings: WorkerSettings, output: Console | None) -> Working:
    """The worker of all topologies; `output` takes their statistics as lines of JSON."""
    loop = Loop(ACKER_LOOP)
    printing = threading.Lock()
    broken: list[BrokenPipeError] = []

    def on_stats(topology: str, stats: WorkerStats) -> None:
        if output is None:
            return
        try:
            with printing:
                output.print(_line(topology, stats))
        except BrokenPipeError as error:
            # The reader of standard output is gone, for all topologies, not only for the one of this thread.
            broken.append(error)
            service.stop()

    service = AckerService(kafka, settings, on_stats, loop.turned)

    def run() -> None:
        service.run()
        if broken:
            raise broken[0]

    def heartbeat_ages() -> dict[str, float]:
        of_topologies = {_loop_of(topology): age for topology, age in service.heartbeat_ages().items()}
        return {**loop.heartbeat_ages(), **of_topologies}

    def stats() -> dict[str, WorkerStats]:
        return {name: served.stats for name, served in service.topologies().items()}

    health = Health(heartbeat_ages, lambda: {_loop_of(name): each.stalled for name, each in stats().items()})
    serving = ServingCollector(lambda: {name: served.serving for name, served in service.topologies().items()})
    return Working(run, service.stop, health, [WorkerCollector(stats), serving])


def _loop_of(topology: str) -> str:
    return f"{ACKER_LOOP} of {topology}"


def _line(topology: str, stats: WorkerStats) -> str:
    return json.dumps({"topology": topology, **dataclasses.asdict(stats)}, separators=(",", ":"))
