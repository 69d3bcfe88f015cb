"""The promises, checked against the arena and the topics."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from spout_sdk import Topology
from tests.chaos.arena import PARTS, Arena
from tests.chaos.topologies import results_of
from tests.kafka.sdk_rig import Cluster, value
from tests.packs import tuples_in
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.names import tuples_topic


def findings(topology: Topology, arena: Arena, cluster: Cluster, *, publishes: bool = False) -> dict[str, int]:
    """How often a promise was broken, by kind: all must be 0.

    - `false_acks`: acks at whose moment an effect was missing, whatever came later.
    - `lost`: messages without an ack, without an effect, or without a result in the topic of a `KafkaBolt`, though they
      are promised.
    - `repeats`: outputs, those of windows and results included, that are there more often than their inputs, with
      exactly once; effects that happened more than once, with at most once.
    """
    there = arena.emitted
    effects = arena.effects[:there]
    guarantee = topology.manifest.guarantee
    if guarantee == "at_most_once":
        return {"false_acks": 0, "lost": 0, "repeats": int((effects > 1).sum())}
    lost = (arena.acked_at[:there] == 0) | (effects == 0).any(axis=1)
    results = _results(topology, cluster) if publishes else None
    if results is not None:
        found = np.zeros((there, PARTS), bool)
        for number, part in results:
            found[number, part] = True
        lost |= ~found.all(axis=1)
    return {
        "false_acks": int(arena.false_acks[:there].sum()),
        "lost": int(lost.sum()),
        "repeats": _repeats(topology, cluster, there, results) if guarantee == "exactly_once" else 0,
    }


Parts = Counter[tuple[int, int]]
"""Number and part → how often."""


def _repeats(topology: Topology, cluster: Cluster, there: int, results: Parts | None) -> int:
    """Outputs that do not exist exactly once for each input of their bolt; a replayed message is another input."""
    # Messages that close windows are none that have outputs.
    inputs = Counter(number for number, *_ in _tuples(topology, cluster, "numbers", "split") if number < there)
    outputs = Counter((number, part) for number, part in _tuples(topology, cluster, "split", "sink"))
    if any(stream.name == "late" for stream in topology.manifest.component("split").streams):
        late = [number for (number,) in _tuples(topology, cluster, "split", "sink", "late")]
        outputs.update((number, part) for number in late for part in range(PARTS))
    expected = Counter({(number, part): count for number, count in inputs.items() for part in range(PARTS)})
    return _differences(outputs, expected) + (0 if results is None else _differences(results, outputs))


def _differences(found: Parts, expected: Parts) -> int:
    return sum(((found - expected) + (expected - found)).values())


def _results(topology: Topology, cluster: Cluster) -> Parts:
    """The records of a `KafkaBolt`'s topic."""
    values = [json.loads(value(record)) for record in cluster.records(results_of(topology.name))]
    return Counter((each["number"], each["part"]) for each in values)


def _tuples(
    topology: Topology, cluster: Cluster, source: str, bolt: str, stream: str = "default"
) -> list[tuple[Any, ...]]:
    declared = topology.manifest.stream(source, stream)
    records = [
        record
        for record in cluster.records(tuples_topic(topology.name, bolt))
        if dict(record.headers() or ())[SOURCE_HEADER] == f"{source}/{stream}".encode()
    ]
    return [each.values for each in tuples_in(records, declared)]


def summary(recoveries: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median and worst recovery by kind of fault, in seconds."""
    return {
        kind: {"count": len(each), "median": round(float(np.median(each)), 1), "worst": round(max(each), 1)}
        for kind, each in sorted(recoveries.items())
        if each
    }
