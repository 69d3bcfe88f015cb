"""Source → transform → sink: what tracking costs, and how fast others do the same.

    make bench-setup
    python -m benchmarks.topology
    python -m benchmarks.topology --only stage --peers plain bytewax --rounds 7
    python -m benchmarks.topology --quick --peers plain

Two comparisons, each alternating between its contestants round by round on one embedded broker: `stage`, one process
from topic to topic, and `pipeline`, a process for each component. docs/performance.md describes both.
"""

import argparse
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, get_args

from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import Process, running_component, running_peer
from benchmarks.setup import FRAMEWORKS
from benchmarks.topics import PAYLOAD_BYTES, Flow, Topics, broker, watch
from benchmarks.topologies import REFERENCE, STREAM, Plan, Source, running_plan
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee
from tuple_tree.names import component_group, tuples_topic
from tuple_tree.streams import Stream

GUARANTEES: Final[tuple[Guarantee, ...]] = get_args(Guarantee)
PEERS: Final = ("plain", "quixstreams", "bytewax")
SOURCES: Final[tuple[Source, ...]] = ("topic", "prepared")
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "at_least_once, columns": {"columns": True},
    "at_least_once, 1 ack partition": {"ack_partitions": 1},
}
"""Of our bolt, beside the guarantees: what differs in its plan."""
_SOURCE: Final = "bench.source"
_TUPLES_A_RECORD: Final = 3
"""Of an inbox for each record of a source: a bolt takes packs faster than peers take records, and both take seconds."""


class StageRounds:
    """Measures one process after the other, for at most `longest` seconds, on topics that are filled once."""

    def __init__(self, topics: Topics, records: int, longest: float, ack_partitions: int) -> None:
        self._topics = topics
        self._records = records
        self._longest = longest
        self._ack_partitions = ack_partitions
        self._plans: dict[str, Plan] = {}

    def bolt(self, settings: str) -> Flow:
        """A round of our bolt; `settings` is a guarantee, or one of `VARIANTS`."""
        plan = self._plans.get(settings) or self._filled(settings)
        self._topics.rewind(component_group(plan.name, "transform"), tuples_topic(plan.name, "transform"))
        with running_component(self._topics.servers, REFERENCE, plan.environment, "transform") as process:
            return self._watch(process, tuples_topic(plan.name, "sink"), None, STREAM)

    def peer(self, name: str, settings: str) -> Flow:
        """A round of a peer, `default` or `tuned`."""
        fill_source(self._topics, self._records)
        sink = f"bench.{name}.{uuid.uuid4().hex[:8]}"
        self._topics.create({sink: 1})
        flags = ["--tuned"] if settings == "tuned" else []
        with running_peer(name, self._topics.servers, _SOURCE, sink, sink, *flags) as process:
            return self._watch(process, sink, self._records)

    def _watch(self, process: Process, topic: str, records: int | None, stream: Stream | None = None) -> Flow:
        pids = {"process": [process.pid], "broker": [self._topics.pid]}
        return watch(
            self._topics, topic, pids, records=records, stream=stream, longest=self._longest, check=process.check
        )

    def _filled(self, settings: str) -> Plan:
        guarantee = next(guarantee for guarantee in GUARANTEES if settings.startswith(guarantee))
        name = f"stage-{re.sub('[^a-z0-9]+', '-', settings)}"
        plan = Plan(name, guarantee=guarantee, ack_partitions=self._ack_partitions)
        plan = self._plans[settings] = replace(plan, **VARIANTS.get(settings, {}))
        self._topics.create_for(plan.topology().manifest)
        inbox, tuples = tuples_topic(plan.name, "transform"), _TUPLES_A_RECORD * self._records
        partitions = None if plan.guarantee == "at_most_once" else plan.ack_partitions
        self._topics.fill_packs(inbox, STREAM, tuples, b"source/default", partitions)
        return plan


def fill_source(topics: Topics, records: int) -> None:
    topics.create({_SOURCE: 1})
    if not topics.end(_SOURCE):
        topics.fill(_SOURCE, records)


def stage(topics: Topics, given: argparse.Namespace) -> list[dict[str, Any]]:
    rounds = StageRounds(topics, given.records, given.seconds, given.ack_partitions)
    contestants: dict[tuple[str, str], Callable[[], Flow]] = {
        (name, settings): partial(rounds.peer, name, settings)
        for name in given.peers
        for settings in ("default", "tuned")
    }
    for settings in (*given.guarantees, *VARIANTS):
        contestants["kafka-acker", settings] = partial(rounds.bolt, settings)
    flows = harness.in_turn(
        contestants, given.rounds, shown=lambda flow: f"{flow.rate:,.0f}/s, {flow.cpu_us('process'):.2f} us"
    )
    return [
        {
            "comparison": "stage",
            "contestant": name,
            "settings": settings,
            "records": [flow.records for flow in of],
            "tuples_per_s": Spread.of([flow.rate for flow in of]),
            "cpu_us_per_tuple": Spread.of([flow.cpu_us("process") for flow in of], 3),
            "broker_cpu_us_per_tuple": Spread.of([flow.cpu_us("broker") for flow in of], 3),
        }
        for (name, settings), of in flows.items()
    ]


def pipeline(topics: Topics, given: argparse.Namespace) -> list[dict[str, Any]]:
    if "topic" in given.sources:
        fill_source(topics, given.records)
    contestants = {
        (source, guarantee): partial(_pipeline, topics, given, source, guarantee)
        for source in given.sources
        for guarantee in given.guarantees
    }
    shown = "{0[tuples_per_s]:,.0f}/s, {0[tuples_per_cpu_second]:,.0f} per CPU second".format
    return [
        {
            "comparison": "pipeline",
            "contestant": "kafka-acker",
            "source": source,
            "settings": guarantee,
            **{key: Spread.of([each[key] for each in of], 3 if "_us_" in key else None) for key in of[0]},
        }
        for (source, guarantee), of in harness.in_turn(contestants, given.rounds, shown=shown).items()
    ]


def _pipeline(topics: Topics, given: argparse.Namespace, source: Source, guarantee: Guarantee) -> dict[str, float]:
    plan = Plan(
        f"pipe-{uuid.uuid4().hex[:8]}",
        guarantee,
        source,
        max_spout_pending=given.pending,
        ack_partitions=given.ack_partitions,
        topic=_SOURCE,
    )
    with running_plan(topics, plan) as running:

        def progress() -> dict[str, int]:
            stats = running.runner.stats()
            return {"source": stats["source"].emitted, "sink": stats["sink"].executed}

        flow = watch(
            topics,
            tuples_topic(plan.name, "sink"),
            {**running.pids(), "broker": [topics.pid]},
            records=None,
            stream=STREAM,
            longest=given.seconds,
            progress=progress,
            check=running.check,
        )
        if failures := running.failures():
            raise BenchmarkError(f"trees failed, so this measures nothing: {failures}")
    # Without trees there is no back-pressure on a spout: its own tuples count, not those that arrived at the end.
    ours = {
        "source_cpu_us_per_tuple": flow.cpu_us("source", max(flow.progress["source"], 1)),
        "transform_cpu_us_per_tuple": flow.cpu_us("transform"),
        "sink_cpu_us_per_tuple": flow.cpu_us("sink", max(flow.progress["sink"], 1)),
        "acker_cpu_us_per_tuple": flow.cpu_us("acker") if "acker" in flow.cpu else 0.0,
    }
    ours_us, broker_us = sum(ours.values()), flow.cpu_us("broker")
    return {
        "tuples_per_s": flow.rate,
        **ours,
        "broker_cpu_us_per_tuple": broker_us,
        "tuples_per_cpu_second": 1e6 / ours_us,
        "tuples_per_cpu_second_with_broker": 1e6 / (ours_us + broker_us),
    }


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Medians over medians, larger is better for us."""
    by_key = {(row["contestant"], row["settings"], row.get("source")): row for row in rows}
    calculated: dict[str, float] = {}

    def ratio(
        name: str, of: str, one: str, other: str, *, peer: str = "kafka-acker", source: str | None = None
    ) -> None:
        above, below = by_key.get(("kafka-acker", one, source)), by_key.get((peer, other, source))
        if above and below:
            quotient = above[of].median / below[of].median
            calculated[name] = round(1 / quotient if of == cpu else quotient, 3)

    rate, cpu = "tuples_per_s", "cpu_us_per_tuple"
    for guarantee in ("at_least_once", "exactly_once"):
        name = f"{guarantee} to at_most_once"
        ratio(f"{name}, one process", rate, guarantee, "at_most_once")
        ratio(f"{name}, one process, by CPU time", cpu, guarantee, "at_most_once")
        for source in SOURCES:
            for of in (rate, "tuples_per_cpu_second"):
                ratio(f"{name}, pipeline from {source}, {of}", of, guarantee, "at_most_once", source=source)
    columns, one_partition = VARIANTS
    ratio("columns to plain tuned", rate, columns, "tuned", peer="plain")
    ratio("8 ack partitions to 1, one process", rate, "at_least_once", one_partition)
    for source in SOURCES:
        name = f"exactly_once to at_least_once, pipeline from {source}"
        ratio(name, rate, "exactly_once", "at_least_once", source=source)
    for peer in PEERS:
        for settings in ("default", "tuned"):
            name = f"at_least_once to {peer} {settings}"
            ratio(name, rate, "at_least_once", settings, peer=peer)
            ratio(f"{name}, by CPU time", cpu, "at_least_once", settings, peer=peer)
    return calculated


def main() -> None:
    parser = harness.parser(__doc__, "one short round")
    parser.add_argument("--records", type=int, help="in each filled topic of records; 1,500,000 unless given")
    parser.add_argument("--rounds", type=int, help="5 unless given")
    parser.add_argument("--seconds", type=float, help="that each is watched at most; 10 unless given")
    parser.add_argument("--pending", type=int, default=20_000, help="open trees of the spout")
    parser.add_argument("--ack-partitions", type=int, default=DEFAULT_ACK_PARTITIONS, help="of the ack log")
    parser.add_argument("--guarantees", nargs="+", choices=GUARANTEES, default=list(GUARANTEES))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--sources", nargs="*", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--only", choices=("stage", "pipeline"))
    given = parser.parse_args()
    given.records = given.records or (200_000 if given.quick else 1_500_000)
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
