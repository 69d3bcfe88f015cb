"""The testing kit: a whole topology in one process, with the real loops and simulated time, and without Kafka.

    from spout_sdk.testing import SimulatedCluster

    with SimulatedCluster(topology, sources={"lines": [("to be or not to be",)]}) as cluster:
        cluster.run_until_idle()
        assert cluster.acked("lines") == [0]

- `cluster`: what tests use; `sources`: mocked spouts and other stand-ins; `readable`: what can be read of it.
- `tasks`: the loops of processes, a turn at a time.
- `broker`: topics in memory; `clients`: its consumers and producers.
- `chance`: time and randomness, which repeat.

It is not imported by `spout_sdk`, because the ledger's compiler takes a second to import.
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
