"""Source → transform → sink: what tracking costs, and how fast others do the same.

    make bench-setup
    python -m benchmarks.topology
    python -m benchmarks.topology --only stage --peers plain bytewax --rounds 7
    python -m benchmarks.topology --quick --peers plain

Two comparisons, each alternating between its contestants round by round on one embedded broker.

**stage**: one process. It reads a topic of one partition that was filled beforehand, turns each payload of 100 bytes
into upper case and writes it to another topic of one partition. That is all that the peers do, so it is what one
process of ours is compared with: the process of a bolt, whose inbox was filled and which emits into the inbox of
another. Its inbox holds the tuples in full packs of 1,000, and it packs what it emits as it does. It is called for each
tuple, or works on columns, and once more with one partition of the ack log instead of eight. (The tuned plain loop runs
once more on records with two headers, which it hands on: that is what the client alone would take for a tuple in a
record of its own.) What it does besides is its guarantee: the tracked bolt reads the anchors of each tuple, gives each
new one an edge, and sends an ack batch before it commits; its inbox holds tuples with one anchor each, as a spout's
task writes them. All commit what they have read after what they wrote was delivered, at least once,
except `at_most_once`, which is the same bolt without trees. Nothing else runs, so each has the two cores of the
machine, or whatever it has, for its threads and the broker.

**pipeline**: a whole topology, a process for each of spout, transform and sink, and one acker worker where trees are
tracked. The spout reads a filled topic (`topic`) or emits prepared payloads (`prepared`); trees complete and are acked
at the spout, of which at most `--pending` are open. On a machine with fewer cores than processes the rate is bounded by
the cores and not by any process, so the result has the CPU time of each process a tuple as well:
`tuples_per_cpu_second` is what one core would carry of the whole pipeline, without and with the broker, and the ratio
of two of them is what a guarantee costs. Without trees there is no back-pressure on a spout, so its own tuples are
counted, not those that arrived at the end.

All are measured from outside and in the same way: records, or the tuples in them, that arrived in the sink's topic over
the broker's append times, without the first tenth and the last twentieth, or without the first second where the number
of packs is not known before; and CPU time from `/proc`.
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
from benchmarks.topics import PAYLOAD_BYTES, Flow, Topics, broker, tracked_headers, watch
from benchmarks.topologies import REFERENCE, STREAM, Plan, Source, running_plan
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee
from tuple_tree.names import component_group, tuples_topic
from tuple_tree.streams import Stream

GUARANTEES: Final[tuple[Guarantee, ...]] = get_args(Guarantee)
PEERS: Final = ("plain", "quixstreams", "bytewax")
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "at_least_once, columns": {"columns": True},
    "at_least_once, 1 ack partition": {"ack_partitions": 1},
}
"""Of our bolt, beside the guarantees: what differs in its plan."""
_SOURCE: Final = "bench.source"
_HEADERS: Final = "bench.source.headers"
_TUPLES_A_RECORD: Final = 3
"""Of an inbox for each record of a source: a bolt takes packs faster than peers take records, and both take seconds."""


class StageRounds:
    """Measures one process after the other, on topics that are filled once.

    Args:
        topics: of the broker.
        records: in the source; an inbox has three times as many tuples.
        longest: seconds that a process is watched.
        ack_partitions: of the ack log that the tracked bolt writes.
    """

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
        """A round of a peer: `default`, `tuned`, or `tuned, two headers` of the plain loop, which hands them on."""
        source, flags = _SOURCE, {"default": [], "tuned": ["--tuned"]}.get(settings, ["--tuned", "--headers"])
        if "--headers" in flags:
            source = _HEADERS
        self._topics.create({source: 1})
        if not self._topics.end(source):
            headers = tracked_headers(b"source/default") if source == _HEADERS else lambda: None
            self._topics.fill(source, self._records, headers)
        sink = f"bench.{name}.{uuid.uuid4().hex[:8]}"
        self._topics.create({sink: 1})
        with running_peer(name, self._topics.servers, source, sink, sink, *flags) as process:
            return self._watch(process, sink, self._records)

    def _watch(self, process: Process, topic: str, records: int | None, stream: Stream | None = None) -> Flow:
        return watch(
            self._topics,
            topic,
            {"process": [process.pid], "broker": [self._topics.pid]},
            records=records,
            stream=stream,
            longest=self._longest,
            check=process.check,
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


def stage(topics: Topics, given: argparse.Namespace) -> list[dict[str, Any]]:
    """One process each, in turn."""
    rounds = StageRounds(topics, given.records, given.seconds, given.ack_partitions)
    contestants: dict[str, Callable[[], Flow]] = {}
    for name in given.peers:
        for settings in ("default", "tuned", *(["tuned, two headers"] if name == "plain" else [])):
            contestants[f"{name}: {settings}"] = partial(rounds.peer, name, settings)
    for settings in (*given.guarantees, *VARIANTS):
        contestants[f"kafka-acker: {settings}"] = partial(rounds.bolt, settings)
    flows = harness.in_turn(
        contestants, given.rounds, shown=lambda flow: f"{flow.rate:,.0f}/s, {flow.cpu_us('process'):.2f} us"
    )
    return [
        {
            "comparison": "stage",
            "contestant": name.partition(": ")[0],
            "settings": name.partition(": ")[2],
            "records": [flow.records for flow in of],
            "tuples_per_s": Spread.of([flow.rate for flow in of]),
            "cpu_us_per_tuple": Spread.of([flow.cpu_us("process") for flow in of], 3),
            "broker_cpu_us_per_tuple": Spread.of([flow.cpu_us("broker") for flow in of], 3),
        }
        for name, of in flows.items()
    ]


def pipeline(topics: Topics, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Whole topologies, in turn."""
    if "topic" in given.sources:
        topics.create({_SOURCE: 1})
        if not topics.end(_SOURCE):
            topics.fill(_SOURCE, given.records)
    contestants = {
        f"{source}: {guarantee}": partial(_pipeline, topics, given, source, guarantee)
        for source in given.sources
        for guarantee in given.guarantees
    }
    shown = "{0[tuples_per_s]:,.0f}/s, {0[tuples_per_cpu_second]:,.0f} per CPU second".format
    return [
        {
            "comparison": "pipeline",
            "contestant": "kafka-acker",
            "source": name.partition(": ")[0],
            "settings": name.partition(": ")[2],
            **{key: Spread.of([each[key] for each in of], 3 if "_us_" in key else None) for key in of[0]},
        }
        for name, of in harness.in_turn(contestants, given.rounds, shown=shown).items()
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
    measured = {
        "tuples_per_s": flow.rate,
        "source_cpu_us_per_tuple": flow.cpu_us("source", max(flow.progress["source"], 1)),
        "transform_cpu_us_per_tuple": flow.cpu_us("transform"),
        "sink_cpu_us_per_tuple": flow.cpu_us("sink", max(flow.progress["sink"], 1)),
        "acker_cpu_us_per_tuple": flow.cpu_us("acker") if "acker" in flow.cpu else 0.0,
        "broker_cpu_us_per_tuple": flow.cpu_us("broker"),
    }
    ours_us = sum(value for name, value in measured.items() if "_us_" in name and not name.startswith("broker"))
    measured["tuples_per_cpu_second"] = 1e6 / ours_us
    measured["tuples_per_cpu_second_with_broker"] = 1e6 / (ours_us + measured["broker_cpu_us_per_tuple"])
    return measured


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Medians over medians, larger is better for us."""

    def median(of: str, settings: str, contestant: str = "kafka-acker", source: str | None = None) -> float | None:
        for row in rows:
            if (row["settings"], row["contestant"], row.get("source")) == (settings, contestant, source):
                return float(row[of].median)
        return None

    calculated: dict[str, float] = {}

    def ratio(name: str, above: float | None, below: float | None) -> None:
        if above and below:
            calculated[name] = round(above / below, 3)

    rate, cpu = "tuples_per_s", "cpu_us_per_tuple"
    for guarantee in ("at_least_once", "exactly_once"):
        name = f"{guarantee} to at_most_once"
        ratio(f"{name}, one process", median(rate, guarantee), median(rate, "at_most_once"))
        ratio(f"{name}, one process, by CPU time", median(cpu, "at_most_once"), median(cpu, guarantee))
        for source in get_args(Source):
            for of in (rate, "tuples_per_cpu_second"):
                mine, other = (median(of, each, source=source) for each in (guarantee, "at_most_once"))
                ratio(f"{name}, pipeline from {source}, {of}", mine, other)
    columns, one_partition = (median(rate, settings) for settings in VARIANTS)
    ratio("columns to plain tuned", columns, median(rate, "tuned", "plain"))
    ratio("8 ack partitions to 1, one process", median(rate, "at_least_once"), one_partition)
    for source in get_args(Source):
        once, again = (median(rate, each, source=source) for each in ("exactly_once", "at_least_once"))
        ratio(f"exactly_once to at_least_once, pipeline from {source}", once, again)
    for peer in PEERS:
        for settings in ("default", "tuned"):
            name = f"at_least_once to {peer} {settings}"
            ratio(name, median(rate, "at_least_once"), median(rate, settings, peer))
            ratio(f"{name}, by CPU time", median(cpu, settings, peer), median(cpu, "at_least_once"))
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
    parser.add_argument("--sources", nargs="*", choices=("topic", "prepared"), default=["topic", "prepared"])
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
    rows: list[dict[str, Any]] = []
    with broker() as topics:
        if given.only != "pipeline":
            rows += stage(topics, given)
        if given.only != "stage":
            rows += pipeline(topics, given)
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
