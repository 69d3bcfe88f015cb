"""What was promised, held against the arena and the topics."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from spout_sdk import Topology
from tests.chaos.arena import PARTS, Arena
from tests.kafka.sdk_rig import Cluster
from tests.packs import tuples_in
from tuple_tree.names import tuples_topic


def findings(topology: Topology, arena: Arena, cluster: Cluster) -> dict[str, int]:
    """How often a promise was broken, by kind: all must be 0.

    - `false_acks`: acks at whose moment an effect was missing, whatever came later.
    - `lost`: messages without an ack, or without an effect, though they are promised.
    - `repeats`: outputs that are there more often than their inputs, with exactly once; effects that happened more
      than once, with at most once.
    """
    there = arena.emitted
    effects = arena.effects[:there]
    guarantee = topology.manifest.guarantee
    if guarantee == "at_most_once":
        return {"false_acks": 0, "lost": 0, "repeats": int((effects > 1).sum())}
    lost = (arena.acked_at[:there] == 0) | (effects == 0).any(axis=1)
    return {
        "false_acks": int(arena.false_acks[:there].sum()),
        "lost": int(lost.sum()),
        "repeats": _repeats(topology, cluster) if guarantee == "exactly_once" else 0,
    }


def _repeats(topology: Topology, cluster: Cluster) -> int:
    """Outputs that are not there exactly once for each input of `split`; a replayed message is another input."""
    inputs = Counter(number for (number,) in _tuples(topology, cluster, "numbers", "split"))
    outputs = Counter((number, part) for number, part in _tuples(topology, cluster, "split", "sink"))
    expected = Counter({(number, part): count for number, count in inputs.items() for part in range(PARTS)})
    return sum(((outputs - expected) + (expected - outputs)).values())


def _tuples(topology: Topology, cluster: Cluster, source: str, bolt: str) -> list[tuple[Any, ...]]:
    stream = topology.manifest.stream(source, "default")
    return [each.values for each in tuples_in(cluster.records(tuples_topic(topology.name, bolt)), stream)]


def summary(recoveries: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median and worst recovery by kind of fault, in seconds."""
    return {
        kind: {"count": len(each), "median": round(float(np.median(each)), 1), "worst": round(max(each), 1)}
        for kind, each in sorted(recoveries.items())
        if each
    }
