"""Program of a worker: `python -m spout_sdk.runtime.process MODULE:TOPOLOGY COMPONENT...`.

`TopologyRunner` starts it, and passes a `Launch` on standard input. SIGTERM, SIGINT and the end of standard input stop
it cleanly; if its supervisor has ended and the stop takes too long, it exits.
"""

import gc
import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_clients.supervision import read_launch, run_reporting, send_report, stop_with_supervisor
from spout_sdk.api.topology import Topology, load_topology
from spout_sdk.errors import (
    AccessError,
    BrokerUnreachableError,
    NotPreparedError,
    TooManyFailuresError,
    TopicsError,
    TopologyError,
)
from spout_sdk.runtime.component_runner import ComponentRunner
from spout_sdk.runtime.supervisor import (
    EXIT_BROKEN,
    EXIT_CLEAN,
    EXIT_GAVE_UP,
    EXIT_NOT_PREPARED,
    EXIT_UNUSABLE,
    Launch,
    stop_seconds,
)
from spout_sdk.runtime.worker import Worker

_DEFAULT_THRESHOLDS: Final = (700, 10, 10)
# A read of 500 records creates some thousand objects, which are all freed before the next read.
_RARE_THRESHOLDS: Final = (5_000, 10, 10)
_EXITS: Final[dict[type[Exception], int]] = {
    NotPreparedError: EXIT_NOT_PREPARED,
    TopicsError: EXIT_UNUSABLE,
    BrokerUnreachableError: EXIT_UNUSABLE,
    AccessError: EXIT_UNUSABLE,
    TooManyFailuresError: EXIT_GAVE_UP,
}
_FORMAT: Final = "%(asctime)s %(process)d %(threadName)s %(levelname)s %(name)s: %(message)s"


def collect_rarely() -> None:
    """Excludes the objects that exist now from garbage collection, and makes collections rarer.

    Measured: a bolt's process uses about a tenth less CPU time per tuple. Loaded modules live as long as the process,
    so nothing is lost. Thresholds that are not Python's defaults were set by the user, and are kept.
    """
    gc.collect()
    gc.freeze()
    if gc.get_threshold() == _DEFAULT_THRESHOLDS:
        gc.set_threshold(*_RARE_THRESHOLDS)


def run_worker(reference: str, components: Sequence[str], launch: Launch) -> int:
    """Runs components of a topology until a signal, or until one fails; returns the exit code."""
    sys.path[:] = [*launch.path, *(entry for entry in sys.path if entry not in launch.path)]
    reporting = threading.Lock()
    worker: Worker | None = None

    def report(component: str, members: Mapping[str, Any]) -> None:
        with reporting:
            send_report(launch.reports, {"name": component, **members})

    def make_runner(topology: Topology, component: str) -> ComponentRunner:
        return ComponentRunner(
            topology,
            component,
            launch.kafka,
            on_stats=lambda stats: report(stats.component, {"stats": stats.to_dict()}),
            on_hanging=lambda why: report(component, {"error": why}),
            slot=launch.slots[component],
            is_new_slot=launch.is_new_slot,
            members=launch.members.get(component, 1),
            state_directory=launch.state_directory,
        )

    def prepare() -> None:
        nonlocal worker
        topology = load_topology(reference)
        runners = {component: make_runner(topology, component) for component in components}
        worker = Worker(runners, report, exit_code, stop_seconds(topology))
        stop_with_supervisor(worker.stop, stop_seconds(topology))
        collect_rarely()

    def exit_code(error: BaseException) -> int:
        if isinstance(error, TopologyError):
            # The user's code raised it; another start would run the same code.
            return EXIT_UNUSABLE if worker is None else EXIT_GAVE_UP
        return next((code for kind, code in _EXITS.items() if isinstance(error, kind)), EXIT_BROKEN)

    code = run_reporting(prepare, lambda error: report(components[0], error), exit_code)
    return code if worker is None else worker.run()


def main(arguments: list[str]) -> int:
    if len(arguments) < 2 or os.isatty(0):
        sys.stderr.write(
            "usage: python -m spout_sdk.runtime.process MODULE:TOPOLOGY COMPONENT..., with a launch line on standard "
            "input; to run a component by hand, use `acker run MODULE:TOPOLOGY --component COMPONENT`\n"
        )
        return EXIT_UNUSABLE
    read = read_launch()
    if read is None:
        return EXIT_CLEAN  # the supervisor ended before it sent a launch
    launch = Launch(**read)
    logging.basicConfig(level=launch.log_level, format=_FORMAT, stream=sys.stderr)
    reference, *components = arguments
    return run_worker(reference, components, launch)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
