"""How the commands show a chain and a bolt that receives from it, on a broker."""

import json
import uuid
from contextlib import closing

from inspection.doctor.checks import examine
from inspection.doctor_gathering import gather_facts
from inspection.observer import Observer
from inspection.topology_status import ClusterStatus
from inspection.trace.tree import Status
from inspection.trace_reader import TraceReader
from tests.chained_clicks import CHAIN, build
from tests.kafka.sdk_rig import Source, in_threads
from tests.unit.cli.running import Acker, json_of
from tests.waiting import eventually

CLICKS = 40


def test_a_chain_that_runs_is_healthy_and_its_tuples_are_traced_and_its_dead_letters_shown(
    bootstrap_servers: str, acker: Acker
) -> None:
    name = f"chained-{uuid.uuid4().hex[:8]}"
    source = Source(bootstrap_servers, build(name), {f"{name}-clicks": 2})
    kafka, manifest = source.bootstrap, source.manifest
    lines = Source(bootstrap_servers, source.topology, {f"{name}-lines": 2}).source
    source.feed([json.dumps({"user": f"u{at % 5}", "ms": at}) for at in range(CLICKS)])
    with in_threads(source.topology, kafka) as running:
        eventually(lambda: running.stats["clicks"].acked == CLICKS, "all trees to be acked")
        assert len(source.records(lines)) == CLICKS

        def is_healthy() -> bool:
            return not [each for each in examine(gather_facts(kafka, name, None, 0.5, print)) if each.check != "java"]

        eventually(is_healthy, "no finding")
        status = ClusterStatus(kafka)
        (found,) = status.of([manifest], status.catalogue.topics())
        assert [found.of_component(bolt) for bolt in CHAIN] == [(1, None)] * 3
        with closing(Observer(kafka, manifest)) as observer:
            observer.open()
            figures = {each["name"]: each for each in observer.snapshot()["components"]}
        heads = {**dict.fromkeys(("clicks", *CHAIN), "clicks"), "count": "count"}
        assert {name: each["head"] for name, each in figures.items()} == heads
        assert [figures[bolt]["lag"] for bolt in ("parse", "count")] == [None, 0]
        first = source.records(f"{name}.tuples.count")[0]
        with TraceReader(kafka, manifest) as reader:
            roots = reader.roots_of_tuple(f"count/{first.partition()}@{first.offset()}")
            trees = reader.trees(roots, reader.usual_since_ms)
        for tree in trees:
            (node,) = tree.nodes
            assert (tree.status, tree.spout, node.chain) == (Status.ACKED, "clicks", ("clicks", "parse"))

        # The dead letter of a chained tuple is shown decoded, and has no inbox to be replayed to.
        source.feed([json.dumps({"user": "ann", "ms": -5})])
        eventually(lambda: running.stats["clicks"].acked == CLICKS + 1, "its tree to be acked")
        (letter,) = json_of(acker("dead-letters", "list", name, "--json"))["dead_letters"]
        shown = acker("dead-letters", "show", name, str(letter["offset"])).stdout
        refused = acker("dead-letters", "replay", name, "--offset", str(letter["offset"]), "--yes")
        assert len(source.records(lines)) == CLICKS
    expected = ("chain of clicks", "exception", "user='ann', ms=-5")
    assert (letter["topic"], letter["reason"], letter["preview"]) == expected
    assert letter["by"].startswith("describe/")
    assert "tuple     user='ann'" in shown
    assert "ann cannot have waited for -5 ms" in shown
    assert refused.returncode == 1, refused.stdout
    assert "bolt describe is chained to clicks, and has no inbox" in refused.stderr
