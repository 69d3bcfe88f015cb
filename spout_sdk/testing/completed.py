"""A topology run to its end in one call."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spout_sdk.testing.cluster import SimulatedCluster
from spout_sdk.testing.sources import FixedTuple
from spout_sdk.topologies.topology import Factory, Topology


def complete_topology(
    topology: Topology,
    *,
    sources: Mapping[str, Iterable[Sequence[Any] | FixedTuple]] | None = None,
    bolts: Mapping[str, Factory] | None = None,
    seed: int = 0,
) -> SimulatedCluster:
    """Runs a topology until every message has an outcome, by time-out if nothing else, and ends it in order.

    Args:
        topology: what `TopologyBuilder.build` returned.
        sources: spouts to be mocked, and what they emit: values, or `FixedTuple`s.
        bolts: bolts to be replaced by another class or callable.
        seed: of everything that is left to chance.

    Returns:
        The cluster, closed: what was emitted, executed, acked and failed can be read from it, and each instance.

    Raises:
        NotIdleError: if there is no end to it, because a spout never runs dry for instance.
        SimulationError: if a stand-in is for nothing, or something external has none.
        ComponentError: if a component raised outside of `execute`.
    """
    manifest = topology.manifest
    tick = manifest.tick_ms / 1000
    with SimulatedCluster(topology, sources=sources, bolts=bolts, seed=seed) as cluster:
        cluster.run_until_idle()
        while any(cluster.pending(spout.name) for spout in manifest.spouts):
            cluster.advance(tick)
        return cluster
