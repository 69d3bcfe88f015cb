"""A chain and a bolt behind it on a broker: what the commands show of them."""

import json
import uuid
from contextlib import closing

from confluent_kafka.admin import NewTopic

from inspection.doctor.checks import examine
from inspection.doctor_gathering import look_at_all
from inspection.observer import Observer
from inspection.topology_status import ClusterStatus
from inspection.trace.tree import Status
from inspection.trace_reader import TraceReader
from tests.chained_clicks import CHAIN, build
from tests.kafka.sdk_rig import Cluster, in_threads, write
from tests.topics import create_topics
from tests.waiting import eventually

CLICKS = 40


def test_a_chain_that_runs_is_healthy_and_its_tuples_are_traced(bootstrap_servers: str) -> None:
    name = f"chained-{uuid.uuid4().hex[:8]}"
    made = build(name)
    cluster = Cluster(bootstrap_servers, made.manifest)
    cluster.create_topics()
    kafka = cluster.bootstrap
    create_topics(kafka, [NewTopic(f"{name}-clicks", 2, 1), NewTopic(f"{name}-lines", 2, 1)])
    write(kafka, f"{name}-clicks", [json.dumps({"user": f"u{at % 5}", "ms": at}) for at in range(CLICKS)], 2)
    with in_threads(made, kafka) as running:
        eventually(lambda: running.stats["clicks"].acked == CLICKS, "all trees to be acked")
        assert len(cluster.records(f"{name}-lines")) == CLICKS

        def is_healthy() -> bool:
            return not [each for each in examine(look_at_all(kafka, name, None, 0.5, print)) if each.check != "java"]

        eventually(is_healthy, "no finding")
        status = ClusterStatus(kafka)
        (found,) = status.of([made.manifest], status.catalogue.topics())
        assert [found.of_component(bolt) for bolt in CHAIN] == [(1, None)] * 3
        with closing(Observer(kafka, made.manifest)) as observer:
            observer.open()
            figures = {each["name"]: each for each in observer.snapshot()["components"]}
        assert {name: each["head"] for name, each in figures.items()} == {
            **dict.fromkeys(("clicks", *CHAIN), "clicks"),
            "count": "count",
        }
        assert [figures[bolt]["lag"] for bolt in ("parse", "count")] == [None, 0]
        first = cluster.records(f"{name}.tuples.count")[0]
        with TraceReader(kafka, made.manifest) as reader:
            roots = reader.roots_of_tuple(f"count/{first.partition()}@{first.offset()}")
            trees = reader.trees(roots, reader.usual_since_ms)
        for tree in trees:
            (node,) = tree.nodes
            assert (tree.status, tree.spout, node.chain) == (Status.ACKED, "clicks", ("clicks", "parse"))
