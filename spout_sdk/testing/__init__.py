"""The testing kit: runs a whole topology in one process, with the real loops and simulated time, without Kafka.

    from spout_sdk.testing import SimulatedCluster

    with SimulatedCluster(topology, sources={"lines": [("to be or not to be",)]}) as cluster:
        cluster.run_until_idle()
        assert cluster.acked("lines") == [0]

- `cluster`: the simulated cluster; `sources`: mocked spouts; `readable`: what tests can read from a cluster.
- `tasks`: runs the loops of processes, a turn at a time.
- `broker`: topics in memory; `clients`: consumers, producers and admin clients of the broker.
- `chance`: simulated time, and random choices that repeat with a seed.

`spout_sdk` does not import it, because the ledger's compiler takes a second to import.
"""

from spout_sdk.testing.broker import MemoryBroker, MemoryRecord, NotIdleError, SimulationError
from spout_sdk.testing.cluster import SimulatedCluster, complete_topology
from spout_sdk.testing.readable import DeadLetter, Emitted, Outcome
from spout_sdk.testing.sources import FixedTuple

__all__ = [
    "DeadLetter",
    "Emitted",
    "FixedTuple",
    "MemoryBroker",
    "MemoryRecord",
    "NotIdleError",
    "Outcome",
    "SimulatedCluster",
    "SimulationError",
    "complete_topology",
]
