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
tuple, or works on columns, and once more with eight partitions of the ack log. (The tuned plain loop
runs once more on records with two headers, which it hands on: that is what the client alone would take for a tuple in a
record of its own.) What it does besides is its promise: the tracked bolt reads the anchors of each
tuple, gives each new one an edge, and sends an ack batch before it commits; its inbox holds tuples with one anchor
each, as a spout's task writes them. All commit what they have read after what they wrote was delivered, at least once,
except `at_most_once`, which is the same bolt without trees. Nothing else runs, so each has the two cores of the
machine, or whatever it has, for its threads and the broker.

**pipeline**: a whole topology, a process for each of spout, transform and sink, and one acker worker where trees are
followed. The spout reads a filled topic (`topic`) or emits prepared payloads (`prepared`); trees complete and are acked
at the spout, of which at most `--pending` are open. On a machine with fewer cores than processes the rate is bounded by
the cores and not by any process, so the CPU time of each process a tuple is told as well: `tuples_per_cpu_second` is
what one core would carry of the whole pipeline, without and with the broker, and the ratio of two of them is what a
guarantee costs. Without trees there is no back-pressure on a spout, so its own tuples are counted, not those that
arrived at the end. The ack log has one partition, as there is one acker worker (`--ack-partitions`).

All are measured from outside and in the same way: records, or the tuples in them, that arrived in the sink's topic over
the broker's append times, without the first tenth and the last twentieth, or without the first second where the number
of packs is not known before; and CPU time from `/proc`.
"""

import argparse
import re
import sys
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from benchmarks import command, running
from benchmarks.broker_topics import PAYLOAD_BYTES, Flow, Topics, tracked_headers, watch
from benchmarks.errors import BenchmarkError
from benchmarks.plans import STREAM, Plan, Source
from benchmarks.results import Spread, machine, publish, report
from benchmarks.setup import python_peers
from local_kafka import LocalKafka
from tuple_tree.manifest import Guarantee
from tuple_tree.names import component_group, tuples_topic
from tuple_tree.streams import Stream

GUARANTEES: Final = get_args(Guarantee)
SOURCE_TOPIC: Final = "bench.source"
HEADERS_TOPIC: Final = "bench.source.headers"
TUPLES_A_RECORD: Final = 3
"""Of an inbox for each record of a source: a bolt takes packs faster than peers take records, and both take seconds."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A contestant that is not ours.

    Attributes:
        program: its file in `benchmarks.peers`.
        framework: in whose environment it runs; None for ours.
    """

    program: str
    framework: str | None


CONTESTANTS: Final = {
    "plain": Contestant("plain", None),
    "quixstreams": Contestant("quixstreams_app", "quixstreams"),
    "bytewax": Contestant("bytewax_flow", "bytewax"),
}


VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "at_least_once, columns": {"columns": True},
    "at_least_once, 8 ack partitions": {"ack_partitions": 8},
}
"""Of our bolt, beside the guarantees: what else its plan says."""


def _guarantee(settings: str) -> Guarantee:
    return next(guarantee for guarantee in GUARANTEES if settings.startswith(guarantee))


class StageRounds:
    """Measures one process after the other, on topics that are filled once.

    Args:
        topics: of the broker.
        broker: its process id.
        records: in the source; an inbox has three times as many tuples.
        longest: seconds that a process is watched.
        ack_partitions: of the ack log that the tracked bolt writes.
    """

    def __init__(self, topics: Topics, broker: int, records: int, longest: float, ack_partitions: int) -> None:
        self._topics = topics
        self._broker = broker
        self._records = records
        self._longest = longest
        self._ack_partitions = ack_partitions
        self._plans: dict[str, Plan] = {}
        topics.create({SOURCE_TOPIC: 1, HEADERS_TOPIC: 1})
        topics.fill(SOURCE_TOPIC, records)

    def bolt(self, settings: str) -> Flow:
        """A round of our bolt; `settings` is a guarantee, or one of `VARIANTS`."""
        plan = self._plans.get(settings) or self._filled(settings)
        inbox = tuples_topic(plan.name, "transform")
        group = component_group(plan.name, "transform")
        self._topics.rewind(group, inbox)
        with running.component(self._topics.servers, plan, "transform") as process:
            return self._watch(process, tuples_topic(plan.name, "sink"), None, STREAM)

    def peer(self, peer: Contestant, *, tuned: bool) -> Flow:
        """A round of a contestant."""
        return self._round(peer, SOURCE_TOPIC, ["--tuned"] if tuned else [])

    def plain_with_headers(self) -> Flow:
        """A round of the tuned plain loop that hands on two headers: what the client alone takes for a tuple."""
        if not self._topics.end(HEADERS_TOPIC):
            self._topics.fill(HEADERS_TOPIC, self._records, tracked_headers(b"source/default"))
        return self._round(CONTESTANTS["plain"], HEADERS_TOPIC, ["--tuned", "--headers"])

    def _round(self, peer: Contestant, source: str, flags: Sequence[str]) -> Flow:
        name = f"bench.{peer.program}.{uuid.uuid4().hex[:8]}"
        self._topics.create({name: 1})
        arguments = [self._topics.servers, source, name, name, *flags]
        with running.peer(peer.program, peer.framework, *arguments) as process:
            return self._watch(process, name, self._records)

    def _watch(self, process: running.Process, topic: str, records: int | None, stream: Stream | None = None) -> Flow:
        return watch(
            self._topics,
            topic,
            {"process": [process.pid], "broker": [self._broker]},
            records=records,
            stream=stream,
            longest=self._longest,
            check=process.check,
        )

    def _filled(self, settings: str) -> Plan:
        name = f"stage-{re.sub('[^a-z0-9]+', '-', settings)}"
        plain = Plan(name, guarantee=_guarantee(settings), ack_partitions=self._ack_partitions)
        plan = self._plans[settings] = replace(plain, **VARIANTS.get(settings, {}))
        running.make_topics(self._topics, plan)
        inbox, tuples = tuples_topic(plan.name, "transform"), TUPLES_A_RECORD * self._records
        partitions = None if plan.guarantee == "at_most_once" else plan.ack_partitions
        self._topics.fill_packs(inbox, STREAM, tuples, b"source/default", partitions)
        return plan


def stage(
    topics: Topics, broker: int, given: argparse.Namespace, guarantees: Sequence[Guarantee], peers: Sequence[str]
) -> list[dict[str, Any]]:
    """One process each, alternating."""
    rounds = StageRounds(topics, broker, given.records, given.seconds, given.ack_partitions)
    flows: defaultdict[tuple[str, str], list[Flow]] = defaultdict(list)
    for number in range(given.rounds):
        for name in peers:
            for tuned in (False, True):
                flow = rounds.peer(CONTESTANTS[name], tuned=tuned)
                flows[name, "tuned" if tuned else "default"].append(flow)
                _say(f"stage {number + 1}: {name}{' tuned' if tuned else ''} {flow.rate:,.0f}/s")
        if "plain" in peers:
            flow = rounds.plain_with_headers()
            flows["plain", "tuned, two headers"].append(flow)
            _say(f"stage {number + 1}: plain tuned, two headers {flow.rate:,.0f}/s")
        for settings in (*guarantees, *VARIANTS):
            flow = rounds.bolt(settings)
            flows["kafka-acker", settings].append(flow)
            _say(f"stage {number + 1}: {settings} {flow.rate:,.0f}/s, {flow.cpu_us('process'):.2f} us")
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


def pipeline(
    topics: Topics, broker: int, given: argparse.Namespace, guarantees: Sequence[Guarantee], sources: Sequence[Source]
) -> list[dict[str, Any]]:
    """Whole topologies, alternating."""
    flows: defaultdict[tuple[Source, Guarantee], list[dict[str, float]]] = defaultdict(list)
    if "topic" in sources:
        topics.create({SOURCE_TOPIC: 1})
        if topics.end(SOURCE_TOPIC) == 0:
            topics.fill(SOURCE_TOPIC, given.records)
    for number in range(given.rounds):
        for source in sources:
            for guarantee in guarantees:
                measured = _one_pipeline(topics, broker, given, source, guarantee)
                flows[source, guarantee].append(measured)
                _say(
                    f"pipeline {number + 1}: {source}, {guarantee} {measured['tuples_per_s']:,.0f}/s, "
                    f"{measured['tuples_per_cpu_second']:,.0f} per CPU second"
                )
    return [
        {
            "comparison": "pipeline",
            "contestant": "kafka-acker",
            "source": source,
            "settings": guarantee,
            **{name: Spread.of([measured[name] for measured in of], 3 if "_us_" in name else None) for name in of[0]},
        }
        for (source, guarantee), of in flows.items()
    ]


def _one_pipeline(
    topics: Topics, broker: int, given: argparse.Namespace, source: Source, guarantee: Guarantee
) -> dict[str, float]:
    plan = Plan(
        f"pipe-{uuid.uuid4().hex[:8]}",
        guarantee,
        source,
        max_spout_pending=given.pending,
        ack_partitions=given.ack_partitions,
        topic=SOURCE_TOPIC,
    )
    running.make_topics(topics, plan)
    with running.topology(topics.servers, plan) as ours:

        def progress() -> dict[str, int]:
            stats = ours.runner.stats()
            return {
                "source": stats["source"].emitted,
                "sink": stats["sink"].executed,
                "trees": stats["source"].acked,
            }

        flow = watch(
            topics,
            tuples_topic(plan.name, "sink"),
            {**ours.pids(), "broker": [broker]},
            records=None,
            stream=STREAM,
            longest=given.seconds,
            progress=progress,
            check=ours.check,
        )
        if failures := ours.failures():
            raise BenchmarkError(f"trees failed, so this measures nothing: {failures}")
    emitted = flow.progress["source"]
    executed = flow.progress["sink"]
    measured = {
        "tuples_per_s": flow.rate,
        "source_cpu_us_per_tuple": flow.cpu_us("source", emitted),
        "transform_cpu_us_per_tuple": flow.cpu_us("transform"),
        "sink_cpu_us_per_tuple": flow.cpu_us("sink", max(executed, 1)),
        "acker_cpu_us_per_tuple": flow.cpu_us("acker") if "acker" in flow.cpu else 0.0,
        "broker_cpu_us_per_tuple": flow.cpu_us("broker"),
    }
    ours_us = sum(value for name, value in measured.items() if "_us_" in name and not name.startswith("broker"))
    measured["tuples_per_cpu_second"] = 1e6 / ours_us
    measured["tuples_per_cpu_second_with_broker"] = 1e6 / (ours_us + measured["broker_cpu_us_per_tuple"])
    return measured


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What the rows say about each other: medians over medians, larger is better for us."""

    def median(comparison: str, contestant: str, settings: str, of: str, source: str | None = None) -> float | None:
        for row in rows:
            found = (row["comparison"], row["contestant"], row["settings"], row.get("source"))
            if found == (comparison, contestant, settings, source):
                return float(row[of].median)
        return None

    found: dict[str, float] = {}

    def ratio(name: str, above: float | None, below: float | None) -> None:
        if above and below:
            found[name] = round(above / below, 3)

    untracked = median("stage", "kafka-acker", "at_most_once", "tuples_per_s")
    untracked_us = median("stage", "kafka-acker", "at_most_once", "cpu_us_per_tuple")
    tracked = median("stage", "kafka-acker", "at_least_once", "tuples_per_s")
    tracked_us = median("stage", "kafka-acker", "at_least_once", "cpu_us_per_tuple")
    for guarantee in ("at_least_once", "exactly_once"):
        rate = median("stage", "kafka-acker", guarantee, "tuples_per_s")
        ratio(f"{guarantee} to at_most_once, one process", rate, untracked)
        us = median("stage", "kafka-acker", guarantee, "cpu_us_per_tuple")
        ratio(f"{guarantee} to at_most_once, one process, by CPU time", untracked_us, us)
        for source in get_args(Source):
            for of in ("tuples_per_s", "tuples_per_cpu_second"):
                mine = median("pipeline", "kafka-acker", guarantee, of, source)
                other = median("pipeline", "kafka-acker", "at_most_once", of, source)
                ratio(f"{guarantee} to at_most_once, pipeline from {source}, {of}", mine, other)
    columns = median("stage", "kafka-acker", "at_least_once, columns", "tuples_per_s")
    ratio("columns to plain tuned", columns, median("stage", "plain", "tuned", "tuples_per_s"))
    partitions = median("stage", "kafka-acker", "at_least_once, 8 ack partitions", "tuples_per_s")
    ratio("8 ack partitions to 1, one process", partitions, tracked)
    for source in get_args(Source):
        once = median("pipeline", "kafka-acker", "exactly_once", "tuples_per_s", source)
        again = median("pipeline", "kafka-acker", "at_least_once", "tuples_per_s", source)
        ratio(f"exactly_once to at_least_once, pipeline from {source}", once, again)
    for name in CONTESTANTS:
        for settings in ("default", "tuned"):
            ratio(f"at_least_once to {name} {settings}", tracked, median("stage", name, settings, "tuples_per_s"))
            us = median("stage", name, settings, "cpu_us_per_tuple")
            ratio(f"at_least_once to {name} {settings}, by CPU time", us, tracked_us)
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = command.parser(__doc__, "one short round")
    parser.add_argument("--records", type=int, help="in each filled topic of records; 1,500,000 unless given")
    parser.add_argument("--rounds", type=int, help="5 unless given")
    parser.add_argument("--seconds", type=float, help="that each is watched at most; 10 unless given")
    parser.add_argument("--pending", type=int, default=20_000, help="open trees of the spout")
    parser.add_argument("--ack-partitions", type=int, default=1, help="of the ack log; the product's default is 8")
    parser.add_argument("--guarantees", nargs="+", choices=GUARANTEES, default=list(GUARANTEES))
    parser.add_argument("--peers", nargs="*", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--sources", nargs="*", choices=("topic", "prepared"), default=["topic", "prepared"])
    parser.add_argument("--only", choices=("stage", "pipeline"))
    given = parser.parse_args()
    given.records = given.records or (200_000 if given.quick else 1_500_000)
    given.rounds = given.rounds or (1 if given.quick else 5)
    given.seconds = given.seconds or (3.0 if given.quick else 10.0)
    rows: list[dict[str, Any]] = []
    # Whoever is missing is missed now, and not after an hour.
    peers: dict[str, str] = {}
    frameworks = [] if given.only == "pipeline" else [CONTESTANTS[name].framework for name in given.peers]
    for framework in frameworks:
        if framework is not None:
            peers |= python_peers.versions(framework)
    host = machine()
    with LocalKafka(jvm="server", heap="1g") as kafka:
        topics = Topics(kafka.bootstrap_servers)
        broker = kafka.pid or 0
        try:
            if given.only != "pipeline":
                rows += stage(topics, broker, given, given.guarantees, given.peers)
            if given.only != "stage":
                rows += pipeline(topics, broker, given, given.guarantees, given.sources)
        finally:
            topics.close()
    settings = {
        "records": given.records,
        "rounds": given.rounds,
        "payload_bytes": PAYLOAD_BYTES,
        "max_spout_pending": given.pending,
        "ack_partitions": given.ack_partitions,
    }
    found = report("topology", host, rows, settings, peers, ratios(rows))
    publish(found, command.directory(given, whole=given.only is None and set(given.peers) == set(CONTESTANTS)))


if __name__ == "__main__":
    command.run(main)
