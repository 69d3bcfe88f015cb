"""The promises, checked against the arena and the topics."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from spout_sdk import Topology
from tests.chaos.arena import PARTS, Arena
from tests.chaos.components import number_of, outcomes_of, results_of
from tests.chaos.stateful import decreases, wrong_keys
from tests.kafka.sdk_rig import Cluster, value
from tests.packs import tuples_in
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic


def findings(
    topology: Topology,
    arena: Arena,
    cluster: Cluster,
    excused: NDArray[np.bool_],
    *,
    publishes: bool = False,
) -> dict[str, int]:
    """How often a promise was broken, by kind: all must be 0.

    - `false_acks`: acks at whose moment an effect was missing, whatever came later.
    - `lost`: messages without an ack, without an effect, whose last outcome is another than acked where the spout
      writes outcomes, or without a result in the topic of a `KafkaBolt`, though they are promised; with at most once,
      messages without an effect that no crash excuses.
    - `wrong_keys`: keys of a state that do not have each tuple once.
    - `repeats`: outputs, results included, that are there more often than their inputs, with
      exactly once; results of a chain that are there more often than once, and once more after each fail, and second
      outcomes of a message of such a chain; effects that happened more than once, with at most once. Of a state with
      exactly once, counts of a key that were emitted after a greater one.
    """
    there = arena.emitted
    effects = arena.effects[:there]
    guarantee = topology.manifest.guarantee
    if guarantee == "at_most_once":
        lost = arena.incomplete & ~excused[:there]
        return {"false_acks": 0, "lost": int(lost.sum()), "repeats": int((effects > 1).sum())}
    acked = arena.acked_at[:there] != 0
    lost = ~acked | (effects == 0).any(axis=1)
    false_acks = arena.false_acks[:there] != 0
    results = _results(topology, cluster) if publishes else []
    outcomes = np.zeros(there, int)
    if "numbers" in topology.manifest.outcome_topics:
        found, last = _outcomes(topology, cluster)
        outcomes = np.array([found["acked", number] for number in range(there)])
        if in_one_transaction(topology.manifest):
            lost = ((outcomes == 0) & ~acked) | (effects == 0).any(axis=1)
        false_acks |= (outcomes > 0) & lost
        lost |= np.array([last.get(number) != "acked" for number in range(there)])
    if publishes:
        lost |= ~_found(there, ((each["number"], each["part"]) for each in results))
    broken = {"false_acks": int(false_acks.sum()), "lost": int(lost.sum()), "repeats": 0}
    if any(bolt.state for bolt in topology.manifest.bolts):
        broken["wrong_keys"] = wrong_keys(topology, cluster, there)
    if guarantee != "exactly_once":
        return broken
    counted = Counter((each["number"], each["part"]) for each in results) if publishes else None
    if "wrong_keys" in broken:
        broken["repeats"] = decreases(topology, cluster)
    elif counted is not None and all(bolt.is_chained for bolt in topology.manifest.bolts):
        broken["repeats"] = chain_repeats(counted, arena.fails) + int(np.maximum(outcomes - 1, 0).sum())
    else:
        broken["repeats"] = _repeats(topology, cluster, there, counted)
    return broken


def in_one_transaction(manifest: Manifest) -> bool:
    """Whether messages are done in a transaction of the spout.

    A process that ends before it knows that this was committed does not call `ack`; the outcomes are complete.
    """
    return manifest.guarantee == "exactly_once" and all(bolt.is_chained for bolt in manifest.bolts)


Parts = Counter[tuple[int, int]]
"""Number and part → how often."""
Deliveries = Counter[tuple[int, int, int]]
"""Root, number and part → how often; the part is -1 of a tuple that is a whole message."""


def disagreements(inputs: Deliveries, outputs: Deliveries, *, splits: bool, may_fail: bool) -> int:
    """Outputs of a bolt that are not there once for each of its inputs; a replay has another root, so it is another.

    One that `splits` has an output for each part of a message. All outputs of an input may be missing if it `may_fail`.
    """
    wrong, left = 0, outputs.copy()
    for (root, number, part), expected in inputs.items():
        parts = range(PARTS) if splits else (part,)
        found = [left.pop((root, number, each), 0) for each in parts]
        few = 0 if may_fail and not any(found) else expected
        wrong += sum(abs(count - few) for count in found)
    return wrong + left.total()


def chain_repeats(results: Parts, fails: NDArray[np.uint8]) -> int:
    """Counts results beyond the first one, and one more for each fail of their message."""
    return sum(max(0, count - 1 - int(fails[number])) for (number, _), count in results.items())


def _repeats(topology: Topology, cluster: Cluster, there: int, results: Parts | None) -> int:
    targets = {(each.source, each.stream): bolt.name for bolt in topology.manifest.bolts for each in bolt.subscriptions}
    may_fail = bool(topology.hooks)  # where there is one, it raises, and so do bolts
    wrong, source, bolt = 0, "numbers", targets["numbers", "default"]
    while (target := targets.get((bolt, "default"))) is not None:
        inputs = _deliveries(topology, cluster, source, bolt, there)
        outputs = _deliveries(topology, cluster, bolt, target, there)
        wrong += disagreements(inputs, outputs, splits=bolt == "split", may_fail=may_fail)
        source, bolt = bolt, target
    if results is not None:
        expected = Parts()
        for (_, number, part), count in _deliveries(topology, cluster, source, bolt, there).items():
            expected[number, part] += count
        wrong += ((results - expected) + (expected - results)).total()
    return wrong


def _found(there: int, parts: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
    """Of each message, whether all its parts are among these."""
    found = np.zeros((there, PARTS), bool)
    for number, part in parts:
        if number < there:
            found[number, part] = True
    whole: NDArray[np.bool_] = np.logical_and.reduce(found, axis=1)
    return whole


def _outcomes(topology: Topology, cluster: Cluster) -> tuple[Counter[tuple[str, int]], dict[int, str]]:
    """How often the topic of outcomes names each message, by outcome; and the last outcome of each message."""
    records = [json.loads(value(record)) for record in cluster.records(outcomes_of(topology.name))]
    ended = [(each["end"], each["outcome"], number_of(each["partition"], each["offset"])) for each in records]
    return Counter(each[1:] for each in ended), {number: outcome for _, outcome, number in sorted(ended)}


def _results(topology: Topology, cluster: Cluster) -> list[dict[str, int]]:
    """The records in the topic of a `KafkaBolt`."""
    return [json.loads(value(record)) for record in cluster.records(results_of(topology.name))]


def _deliveries(topology: Topology, cluster: Cluster, source: str, bolt: str, there: int) -> Deliveries:
    """The tuples of a component in the inbox of a bolt."""
    declared = topology.manifest.stream(source, "default")
    records = [
        record
        for record in cluster.records(tuples_topic(topology.name, bolt))
        if dict(record.headers() or ())[SOURCE_HEADER] == f"{source}/default".encode()
    ]
    has_part = "part" in declared.field_names
    found = Deliveries()
    for each in tuples_in(records, declared):
        number = each.values[0]
        if number < there:
            (root,) = each.edges
            found[root, number, each.values[1] if has_part else -1] += 1
    return found


def summary(recoveries: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median and worst recovery by kind of fault, in seconds."""
    return {
        kind: {"count": len(each), "median": round(float(np.median(each)), 1), "worst": round(max(each), 1)}
        for kind, each in sorted(recoveries.items())
        if each
    }
