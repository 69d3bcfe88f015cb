"""Recovery of a topology from a restart of its only broker: from the kill until a hundred more trees are acked.

    python -m benchmarks.broker_restart                              # exactly once, seven kills
    python -m benchmarks.broker_restart --guarantee at_least_once
    python -m benchmarks.broker_restart --rounds 3 --away 2

The topology of `benchmarks.latency` emits 200 tuples a second through four bolts; three of them have two processes
each. The broker is killed with SIGKILL, and started again on its files and port after `--away` seconds.
"""

import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args

from benchmarks import harness
from benchmarks.harness import Benchmark, wait
from benchmarks.latency import TOPOLOGY, Plan
from benchmarks.processes import running_topology
from benchmarks.topics import Topics
from local_kafka import LocalKafka
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee

# A killed broker may not register again before its last session has ended.
_KILLED: Final = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
_RATE: Final = 200.0
_LIMIT_SECONDS: Final = 120.0
_QUIET_SECONDS: Final = 5.0
_SOME: Final = 100  # more than the acks that were under way at the kill


def recover(broker: LocalKafka, acked: Callable[[], int], away: float) -> dict[str, float]:
    """Kills the broker and starts it again; returns the seconds until it answers, and until trees are acked."""

    def wait_for(more: int) -> None:
        before = acked()
        wait(lambda: acked() > before + more, f"no more than {before + more} trees are acked", _LIMIT_SECONDS)

    wait_for(5 * _SOME)
    time.sleep(_QUIET_SECONDS)
    killed = time.monotonic()
    broker.kill()
    time.sleep(away)
    broker.start()
    answers = time.monotonic() - killed
    wait_for(_SOME)
    return {"answers_s": answers, "acked_s": time.monotonic() - killed}


def main() -> None:
    bench = Benchmark("broker_restart", __doc__, quick="one kill", rounds=7)
    bench.option("--guarantee", "exactly_once", choices=get_args(Guarantee), help="of the topology")
    bench.option("--away", 5.0, quick=1.0, help="seconds from a kill until the broker is started")
    given = bench.start()
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalKafka(data_dir=Path(directory, "broker"), properties=_KILLED) as broker,
    ):
        name, endless = f"restart-{uuid.uuid4().hex[:8]}", 86_400.0
        plan = Plan(_RATE, endless, DEFAULT_ACK_PARTITIONS, given.guarantee, 4, 2, name, directory)
        topics = Topics(broker.bootstrap_servers)
        bolts = [[f"transform{number}"] for number in (1, 2, 3)]
        with running_topology(
            topics, TOPOLOGY, plan.environment, [["source"], *bolts, *bolts, ["sink"]], restart=True
        ) as running:
            stats = running.runner.stats
            kills = [recover(broker, lambda: stats()["source"].acked, given.away) for _ in range(bench.rounds)]
            failed = sum(stats()["source"].failed.values())
        topics.close()
    bench.publish([{"guarantee": given.guarantee, **harness.spreads(kills, 1), "failed": failed}])


if __name__ == "__main__":
    harness.run(main)
