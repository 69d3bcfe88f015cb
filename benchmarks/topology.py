"""Source → transform → sink: what tracking costs, and how fast others do the same.

    make bench-setup
    python -m benchmarks.topology
    python -m benchmarks.topology --only stage --peers plain bytewax --rounds 7
    python -m benchmarks.topology --quick --peers plain

Two comparisons, each alternating between its contestants round by round on one embedded broker: `stage`, one process
from topic to topic, and `pipeline`, a process for each component. docs/performance.md describes both.
"""

import argparse
import itertools
import os
import re
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, get_args
from unittest.mock import patch

from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import Sample, running_program, running_topology, steady, watch
from benchmarks.setup import FRAMEWORKS, peer_program
from benchmarks.topics import PAYLOAD_BYTES, Topics, broker, payloads
from benchmarks.topologies import STREAM, TRANSFORM, Plan, transform
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee
from tuple_tree.names import component_group, tuples_topic

GUARANTEES: Final[tuple[Guarantee, ...]] = get_args(Guarantee)
OURS: Final = "kafka-acker"
PEERS: Final = ("plain", "quixstreams", "bytewax")
BOLTS: Final[dict[str, dict[str, Any]]] = {  # settings of our bolt → what differs in its plan
    **{guarantee: {"guarantee": guarantee} for guarantee in GUARANTEES},
    "at_least_once, columns": {"columns": True},
    "at_least_once, 1 ack partition": {"ack_partitions": 1},
}
_SOURCE: Final = "bench.source"
# Of an inbox for each record of a source: a bolt takes packs faster than peers take records, and both take seconds.
_TUPLES_A_RECORD: Final = 3
_FIRST, _LAST = 0.1, 0.95  # of what arrived, the part between these shares counts: the rest is start and end


def flow(
    topics: Topics,
    topic: str,
    pids: Mapping[str, Sequence[int]],
    check: Callable[[], None],
    longest: float,
    *,
    records: int | None = None,
    counts: Callable[[], Mapping[str, float]] = dict,
) -> tuple[float, Sample]:
    """The tuples that arrive in partition 0 of a topic in its steady part, and this part.

    Without the number of `records` that are going to arrive these are packs, whose tuples are counted afterwards.
    """
    before = topics.end(topic)
    pids = {**pids, "broker": [topics.pid]}
    samples = watch(lambda: topics.end(topic) - before, pids, check, counts=counts, total=records, longest=longest)
    arrived = samples[-1].done
    # Before the first sample CPU time counts as start-up.
    first, last = int(max(_FIRST * arrived, samples[1].done)), int(_LAST * arrived)
    part = steady(samples, first, last)
    tuples = last - first if records else topics.tuples(topic, STREAM, before + first, before + last)
    if tuples < (records or 0) / 1000 or last - first < 2:
        raise BenchmarkError(f"only {tuples} tuples arrived in {topic}: too few to measure")
    return tuples, part


def compare(
    comparison: str, contestants: Mapping[tuple[str, str], Callable[[], dict[str, float]]], rounds: int
) -> list[dict[str, Any]]:
    """A row for each contestant, whose name and settings are given, with the spread of each figure of its rounds."""
    shown = "{0[tuples_per_s]:,.0f}/s".format
    return [
        {
            "comparison": comparison,
            "contestant": name,
            "settings": settings,
            **{key: Spread.of([each[key] for each in of], 3 if "_us_" in key else None) for key in of[0]},
        }
        for (name, settings), of in harness.in_turn(contestants, rounds, shown=shown).items()
    ]


def stage(topics: Topics, given: argparse.Namespace) -> list[dict[str, Any]]:
    contestants = {
        (name, settings): partial(_peer, topics, given, name, flags)
        for name in given.peers
        for settings, flags in (("default", ()), ("tuned", ("--tuned",)))
    }
    bolts = {(OURS, settings): partial(_bolt, topics, given, _filled(topics, given, settings)) for settings in BOLTS}
    return compare("stage", contestants | bolts, given.rounds)


def _filled(topics: Topics, given: argparse.Namespace, settings: str) -> Plan:
    plan = Plan(f"stage-{re.sub('[^a-z0-9]+', '-', settings)}", ack_partitions=given.ack_partitions)
    plan = replace(plan, **BOLTS[settings])
    with patch.dict(os.environ, plan.environment):
        topics.create_for(transform().manifest)
    partitions = None if plan.guarantee == "at_most_once" else plan.ack_partitions
    tuples = _TUPLES_A_RECORD * given.records
    topics.fill_packs(tuples_topic(plan.name, "transform"), STREAM, tuples, b"source/default", partitions)
    return plan


def _bolt(topics: Topics, given: argparse.Namespace, plan: Plan) -> dict[str, float]:
    topics.rewind(component_group(plan.name, "transform"), tuples_topic(plan.name, "transform"))
    command = [sys.executable, "-m", "acker_cli", "run", TRANSFORM, "--component", "transform"]
    command += ["--bootstrap-servers", topics.servers]
    return _process(topics, given, command, tuples_topic(plan.name, "sink"), None, plan.environment)


def _peer(topics: Topics, given: argparse.Namespace, name: str, flags: Sequence[str]) -> dict[str, float]:
    sink = f"bench.{name}.{uuid.uuid4().hex[:8]}"
    topics.create({sink: 1})
    command = peer_program(name, topics.servers, _SOURCE, sink, sink, *flags)
    return _process(topics, given, command, sink, given.records, {})


def _process(
    topics: Topics,
    given: argparse.Namespace,
    command: Sequence[str],
    sink: str,
    records: int | None,
    variables: Mapping[str, str],
) -> dict[str, float]:
    with running_program(sink, command, variables) as program:
        pids = {"process": [program.process.pid]}
        tuples, part = flow(topics, sink, pids, program.check, given.seconds, records=records)
    return {
        "records": tuples,
        "tuples_per_s": tuples / part.at,
        "cpu_us_per_tuple": part.figures["process"] * 1e6 / tuples,
        "broker_cpu_us_per_tuple": part.figures["broker"] * 1e6 / tuples,
    }


def pipeline(topics: Topics, given: argparse.Namespace) -> list[dict[str, Any]]:
    rounds = {(OURS, str(guarantee)): partial(_pipeline, topics, given, guarantee) for guarantee in GUARANTEES}
    return compare("pipeline", rounds, given.rounds)


def _pipeline(topics: Topics, given: argparse.Namespace, guarantee: Guarantee) -> dict[str, float]:
    plan = Plan(f"pipe-{uuid.uuid4().hex[:8]}", guarantee, given.pending, given.ack_partitions, _SOURCE)
    with running_topology(topics, TRANSFORM, plan.environment) as running:

        def counts() -> dict[str, float]:
            stats = running.runner.stats()
            return {"emitted": stats["source"].emitted, "executed": stats["sink"].executed}

        sink = tuples_topic(plan.name, "sink")
        tuples, part = flow(topics, sink, running.pids(), running.check, given.seconds, counts=counts)
        if failures := running.failures():
            raise BenchmarkError(f"trees failed, so this measures nothing: {failures}")
    # Without trees there is no back-pressure on a spout: its own tuples count, not those that arrived at the end.
    by_component = {
        "source": part.figures["emitted"],
        "transform": tuples,
        "sink": part.figures["executed"],
        "acker": tuples,
    }
    ours = {
        f"{name}_cpu_us_per_tuple": part.figures.get(name, 0.0) * 1e6 / max(1, processed)
        for name, processed in by_component.items()
    }
    ours_us, broker_us = sum(ours.values()), part.figures["broker"] * 1e6 / tuples
    return {
        "tuples_per_s": tuples / part.at,
        **ours,
        "broker_cpu_us_per_tuple": broker_us,
        "tuples_per_cpu_second": 1e6 / ours_us,
        "tuples_per_cpu_second_with_broker": 1e6 / (ours_us + broker_us),
    }


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Medians over medians, larger is better for us."""
    by_key = {(row["comparison"], row["contestant"], row["settings"]): row for row in rows}
    calculated: dict[str, float] = {}

    def ratio(name: str, comparison: str, column: str, settings: str, other: str, peer: str = OURS) -> None:
        ours, others = by_key.get((comparison, OURS, settings)), by_key.get((comparison, peer, other))
        if ours and others:
            quotient = ours[column].median / others[column].median
            calculated[name] = round(1 / quotient if column == cpu else quotient, 3)

    rate, cpu, per_cpu = "tuples_per_s", "cpu_us_per_tuple", "tuples_per_cpu_second"
    for guarantee in GUARANTEES[1:]:
        name = f"{guarantee} to at_most_once"
        ratio(f"{name}, one process", "stage", rate, guarantee, "at_most_once")
        ratio(f"{name}, one process, by CPU time", "stage", cpu, guarantee, "at_most_once")
        ratio(f"{name}, pipeline, {rate}", "pipeline", rate, guarantee, "at_most_once")
        ratio(f"{name}, pipeline, {per_cpu}", "pipeline", per_cpu, guarantee, "at_most_once")
    ratio("exactly_once to at_least_once, pipeline", "pipeline", rate, "exactly_once", "at_least_once")
    columns, one_partition = [*BOLTS][len(GUARANTEES) :]
    ratio("columns to plain tuned", "stage", rate, columns, "tuned", "plain")
    ratio("8 ack partitions to 1, one process", "stage", rate, "at_least_once", one_partition)
    for peer in PEERS:
        for settings in ("default", "tuned"):
            name = f"at_least_once to {peer} {settings}"
            ratio(name, "stage", rate, "at_least_once", settings, peer)
            ratio(f"{name}, by CPU time", "stage", cpu, "at_least_once", settings, peer)
    return calculated


def main() -> None:
    parser = harness.parser(__doc__, "one short round")
    parser.add_argument("--records", type=int, help="in each filled topic of records; 1,500,000 unless given")
    parser.add_argument("--rounds", type=int, help="5 unless given")
    parser.add_argument("--seconds", type=float, help="that each is watched at most; 10 unless given")
    parser.add_argument("--pending", type=int, default=20_000, help="open trees of the spout")
    parser.add_argument("--ack-partitions", type=int, default=DEFAULT_ACK_PARTITIONS, help="of the ack log")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--only", choices=("stage", "pipeline"))
    given = parser.parse_args()
    given.records = given.records or (500_000 if given.quick else 1_500_000)
    given.rounds = given.rounds or (1 if given.quick else 5)
    given.seconds = given.seconds or (3.0 if given.quick else 10.0)
    # A missing peer ends the benchmark now, and not after an hour.
    versions: dict[str, str] = {}
    for name in () if given.only == "pipeline" else given.peers:
        versions |= FRAMEWORKS[name].versions() if name in FRAMEWORKS else {}
    kept_in = harness.directory(given, whole=given.only is None and set(given.peers) == set(PEERS))
    harness.await_idle(kept_in)
    host = harness.machine()
    with broker() as topics:
        topics.create({_SOURCE: 1})
        source = itertools.islice(itertools.cycle(payloads()), given.records)
        topics.write(_SOURCE, ((payload, 0, None) for payload in source))
        rows = stage(topics, given) if given.only != "pipeline" else []
        rows += pipeline(topics, given) if given.only != "stage" else []
    settings = {
        "records": given.records,
        "rounds": given.rounds,
        "payload_bytes": PAYLOAD_BYTES,
        "max_spout_pending": given.pending,
        "ack_partitions": given.ack_partitions,
    }
    harness.publish("topology", host, rows, settings, kept_in, versions=versions, ratios=ratios(rows))


if __name__ == "__main__":
    harness.run(main)
