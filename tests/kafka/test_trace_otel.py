"""`acker trace --json | acker otel`, on a real Kafka, to a collector: trees join the traces of their messages."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from acker_worker.catalogue import Catalogue
from spout_sdk import TopologyRunner
from tests.kafka.ack_log import AckLog
from tests.kafka.sdk_rig import headers_of, value
from tests.kafka.sdk_topologies import NAME
from tests.kafka.source_rig import Source
from tests.kafka.source_topologies import SOURCE
from tests.unit.cli.running import Acker, Run, run_acker
from tests.unit.inspection.otel.collector import collecting
from tuple_tree.anchors import pack_anchors
from tuple_tree.names import tuples_topic

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def acker(tmp_path: Path) -> Acker:
    def run(*arguments: str, given: str = "") -> Run:
        return run_acker(*arguments, cwd=tmp_path, given=given, seconds=180)

    return run


def test_trees_join_the_traces_of_their_messages(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, acker: Acker
) -> None:
    """In every tuple, of a second attempt too; a message without the header has a trace of its own."""
    unique = uuid.uuid4().hex[:8]
    topic = f"otel-{unique}"
    monkeypatch.setenv(NAME, f"three-steps-{unique}")
    monkeypatch.setenv(SOURCE, topic)
    source = Source(bootstrap_servers, "three_steps", {topic: 1})
    source.feed(["zero"])
    producer = Producer(source.bootstrap)
    headers: list[tuple[str, str | bytes | None]] = [("other", b"x"), ("traceparent", TRACEPARENT.encode())]
    producer.produce(topic, b"once", partition=0, headers=headers)
    assert producer.flush(30) == 0
    name = source.manifest.topology
    with source.acker(), TopologyRunner(source.reference, source.kafka):
        source.await_all_committed()
    of = ("--topology", name, "--bootstrap-servers", bootstrap_servers, "--json")

    def traced(offset: int) -> tuple[str, list[dict[str, Any]]]:
        run = acker("trace", "--message", f"lines/0/{offset}", *of)
        assert run.returncode == 0, run.stderr
        return run.stdout, json.loads(run.stdout)["trees"]

    printed, trees = traced(1)
    assert sorted(tree["status"] for tree in trees) == ["acked", "failed"]
    for tree in trees:
        assert [each["traceparent"] for each in tree["tuples"]] == [TRACEPARENT] * 3
    plain, (other,) = traced(0)
    assert [each["traceparent"] for each in other["tuples"]] == [None] * 3
    for tuples in (f"{name}.tuples.hand-on", f"{name}.tuples.see"):
        found = [[*headers_of(record)] for record in source.records(tuples)]
        assert {*map(len, found)} == {2, 3}
        assert all(names[:2] == ["anchors", "source"] for names in found)
    # And code in a bolt has seen it.
    said = [value(record).decode() for record in source.records(f"{name}.tuples.see")]
    assert sum(each.endswith(f"once a {TRACEPARENT}") for each in said) == 2
    assert sum(each.endswith("zero a None") for each in said) == 1
    with collecting() as collector:
        sent = acker("otel", "--endpoint", collector.endpoint, given=printed + plain)
        assert sent.returncode == 0, sent.stderr
        assert sent.stdout == "sent 12 spans of 3 trees\n"
        spans = [
            span
            for request in collector.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
    joined = [span for span in spans if span.trace_id.hex() == TRACE]
    assert len(joined) == 8
    assert [span.parent_span_id.hex() for span in joined if span.name == "tree of lines"] == [PARENT] * 2
    assert len({span.trace_id for span in spans if span not in joined}) == 1
    Catalogue(source.bootstrap).withdraw(name)


def test_a_traceparent_of_a_tuple_is_printed(bootstrap_servers: str, acker: Acker) -> None:
    """Such as an external component may write it."""
    with AckLog(bootstrap_servers) as log:
        log.say(2, init=5)
        log.flush()
        producer = Producer(log.kafka)
        headers: list[tuple[str, str | bytes | None]] = [
            ("anchors", pack_anchors({2: 5})),
            ("source", b"s/default"),
            ("traceparent", TRACEPARENT.encode()),
        ]
        producer.produce(tuples_topic(log.topology, "b"), b"\x02a", partition=0, headers=headers)
        assert producer.flush(30) == 0
        run = acker("trace", "0x2", "--json", "--topology", log.topology, "--bootstrap-servers", bootstrap_servers)
        assert run.returncode == 0, run.stderr
        (tree,) = json.loads(run.stdout)["trees"]
        assert [each["traceparent"] for each in tree["tuples"]] == [TRACEPARENT]
        log.catalogue.withdraw(log.topology)
