"""`acker trace`: where a tree is stuck."""

from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from inspection.errors import TraceError
from inspection.notation import show_root
from inspection.trace.records import State
from inspection.trace.tree import Status
from inspection.trace_reader import TraceReader
from kafka_clients.catalogue import Catalogue
from tests.kafka.ack_log import AckLog
from tests.kafka.sdk_rig import Cluster, Use, headers_of, in_threads, progress, write_in_transactions
from tests.kafka.topologies import LINES, STUCK
from tests.packs import anchor_headers, edges_in, packed, tuples_in
from tests.unit.cli.running import Acker, Run, call_acker, json_of, one_line
from tests.unit.inspection.otel.collector import collecting
from tests.waiting import eventually
from tuple_tree.names import tuples_topic
from tuple_tree.positions import Position, positional_root, topic_key
from tuple_tree.routing import fields_task

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def acker(bootstrap_servers: str) -> Acker:
    return partial(call_acker, "trace", servers=bootstrap_servers)


def trees_of(run: Run) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = json_of(run)["trees"]
    return trees


def stuck_tuple(cluster: Cluster) -> tuple[int, int, str, int]:
    """Task, offset, place and root of the word that is never acked."""
    stream = cluster.manifest.stream("split", "default")
    inbox = [*tuples_in(cluster.records(tuples_topic(cluster.name, "count")), stream)]
    (stuck,) = (each for each in inbox if each.values == (STUCK,))
    beside = [each for each in inbox if (each.partition, each.offset) == (stuck.partition, stuck.offset)]
    place = str(stuck.offset) if len(beside) == 1 else f"{stuck.offset}.{stuck.index}"
    (root,) = stuck.edges
    return stuck.partition, stuck.offset, place, root


@pytest.mark.smoke
def test_the_verdict_on_the_oldest_tree_has_bolt_tuple_and_offset(use: Use, acker: Acker) -> None:
    cluster = use("forgetful")
    name = cluster.name
    with in_threads(cluster.topology, cluster.bootstrap) as running:
        eventually(lambda: running.stats["lines"].acked == LINES - 1, "the other lines acked")
        task, offset, place, root = stuck_tuple(cluster)
        assert task == fields_task(STUCK.encode(), 2)
        eventually(lambda: cluster.progress("count")[task][0] == offset, "all before it committed")

        (tree,) = trees_of(acker("--oldest", "1", "--topology", name, "--json"))
        assert (tree["root"], tree["status"], tree["spout"]) == (show_root(root), "open", "lines")
        (open_,) = (each for each in tree["tuples"] if each["state"] == "open")
        assert open_["tuple"] == f"count/{task}@{place}"
        assert (open_["bolt"], open_["task"], open_["offset"]) == ("count", task, offset)
        assert (open_["preview"], open_["lag"]) == (f"word={STUCK!r}", 0)
        (parent,) = open_["parents"]
        assert parent.startswith("split/")
        sentence = (
            f"open: 1 of 6 tuples, `count` task {task} has done all before offset {place}, but not that "
            f"(word={STUCK!r})"
        )
        assert tree["verdict"] == sentence
        by = {each["tuple"]: [ack["writer"] for ack in each["acks"]] for each in tree["tuples"]}
        assert by.pop(open_["tuple"]) == []
        assert by == {tuple_: [tuple_.partition("@")[0]] for tuple_ in by}

        (same,) = trees_of(acker("--tuple", f"count/{task}@{place}", "--topology", name, "--json"))
        assert same["root"] == show_root(root)
        for wrong, message in {
            "count/9@0": "give BOLT/TASK@OFFSET or BOLT/TASK@OFFSET.INDEX; the bolts with an inbox are split",
            f"count/{task}@999": f"[{task}] holds no record at offset 999: its offsets are 0 to",
        }.items():
            assert message in one_line(acker("--tuple", wrong, "--topology", name))
        assert running.stats["count"].oldest_input == f"{name}.tuples.count[{task}] offset {offset}"

        lines = acker("--oldest", "5", "--topology", name).stdout.splitlines()
        assert lines[0].startswith(f"root {show_root(root)} of {name}  begun 20")
        assert f"{parent}  number={STUCK}, attempt=0, line=" in lines[1]
        (drawn,) = (line for line in lines if f"count/{task}@{place}  word={STUCK!r}" in line)
        assert drawn.endswith(f"open, committed {offset}")
        assert lines[-1] == sentence

        # A tree that is complete, by its decimal id.
        inbox = cluster.records(tuples_topic(name, "count"))
        roots = {other for record in inbox for each in edges_in(headers_of(record).items()) for other in each}
        (done,) = trees_of(acker(str(min(roots - {root})), "--topology", name, "--json"))
        assert done["status"] == "acked"
        assert {each["state"] for each in done["tuples"]} == {"acked"}
        assert [notice["outcome"] for notice in done["notices"]] == ["acked"]
        assert done["verdict"].startswith("acked after ")
        assert done["unexplained"] == []


def test_a_trace_is_found_or_its_error_has_a_remedy(log: AckLog, acker: Acker) -> None:
    name = log.topology
    of = ("--topology", name)
    assert "no topology 'no-such'" in one_line(acker("1f", "--topology", "no-such"))
    untracked = log.manifest.model_copy(update={"topology": f"{name}-u", "guarantee": "at_most_once"})
    log.catalogue.publish(untracked)
    assert "is at_most_once: it has no tuple trees" in one_line(acker("1f", "--topology", untracked.topology))
    several = one_line(acker("1f"))
    assert "say which topology is meant, with --topology NAME: the cluster has " in several
    assert untracked.topology in several
    log.catalogue.withdraw(untracked.topology)
    log.send(2, init=5)
    log.flush()
    absent = one_line(acker("0x4", *of))
    assert f"the ack log of {name} has no entry of root {4:016x} since 20" in absent
    assert f"(searched: {log.topic}[0] offsets 0 to 1)" in absent
    assert "--since 1d" in absent
    assert acker("--last-failed", "1", *of).stdout == f"no tree of {name} failed in that time\n"
    log.send(2, ack=5)
    log.flush()
    assert acker("--oldest", "1", *of).stdout == f"{name} has no open trees\n"

    # A message of a positional spout has a root for each attempt; here the ack log is its source.
    assert f"group {name}.s has no committed offsets of a source" in one_line(acker("--message", "s/3/17", *of))
    spout = Consumer({**log.kafka, "group.id": f"{name}.s"})
    spout.commit(offsets=[TopicPartition(log.topic, 0, 0)], asynchronous=False)
    spout.close()
    key = topic_key(str(log.catalogue.topic_id(log.topic)))
    first, second = (
        positional_root(Position(0, 3, 17, attempt), key, log.manifest.ack_partitions) for attempt in (0, 1)
    )
    log.send(first, init=5, fail="no")
    log.send(second, init=6, ack=6)
    log.flush()
    trees = trees_of(acker("--message", "s/3/17", *of, "--json"))
    assert [(tree["root"], tree["status"]) for tree in trees] == [
        (show_root(first), "failed"),
        (show_root(second), "acked"),
    ]
    assert trees[0]["verdict"].startswith("failed, by test/0 (no): none of its tuples is in the inboxes")
    (only,) = trees_of(acker("--message", "s/3/17/1", *of, "--json"))
    assert only["root"] == show_root(second)
    assert "has no entry of message s/3/18 since" in one_line(acker("--message", "s/3/18", *of))

    def interrupt(_what: str, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), TraceReader(log.kafka, log.manifest, interrupt) as reader:
        reader.trees([2], 0)
    inbox = tuples_topic(name, "b")
    log.delete_topic(inbox)
    assert f"topic {inbox} does not exist" in one_line(acker("0x2", *of))


def test_a_tuple_in_two_trees_is_found_for_both(log: AckLog) -> None:
    """It waits at the beginning, for its group has never committed; the records after it were aborted."""
    for root in (2, 4):
        log.send(root, init=0xA)
    log.flush()
    inbox = tuples_topic(log.topology, "b")
    payload = packed(log.manifest.stream("s", "default"), ("a",))
    source = ("source", b"s/default")
    of_both: list[tuple[str, str | bytes | None]] = [*anchor_headers([{2: 0xA, 4: 0xA}]), source]
    of_both.append(("traceparent", TRACEPARENT.encode()))
    for headers in (of_both, [*anchor_headers([{6: 0xC}]), source], [("anchors", b"ragged"), source], []):
        write_in_transactions(log.kafka, inbox, [(payload, True)], headers)
    write_in_transactions(log.kafka, inbox, [(payload, False)], of_both)
    # So that a marker is all that follows.
    eventually(lambda: progress(log.kafka, f"{log.topology}.b", inbox)[0][1] == 10, "the marker of the abort")
    with TraceReader(log.kafka, log.manifest) as reader:
        since = log.append_ms(0) - 60_000
        trees = reader.trees([4, 2], since)
        assert [tree.root for tree in trees] == [4, 2]
        for tree in trees:
            (node,) = tree.nodes
            assert (node.state, node.roots, node.committed) == (State.OPEN, 2, 0)
            assert (node.preview, node.traceparent) == ("word='a'", TRACEPARENT)
        # No worker has ever been there: the window is the one asked for.
        assert set(reader.oldest(2, since)) == {2, 4}


def test_the_oldest_trees_are_those_of_the_ackers(log: AckLog) -> None:
    """Read from the offset in their commit, even if it is before the requested time."""
    with log.worker():
        for root in range(2, 22, 2):
            log.send(root, init=root, ack=root if root > 4 else None)
        log.await_notices(range(6, 22, 2))
        eventually(lambda: log.committed()[0][0] == log.end_offsets()[0], "the commit")
    with TraceReader(log.kafka, log.manifest) as reader:
        now = log.append_ms(1)
        assert set(reader.oldest(9, now + 60_000)) == {2, 4}
        trees = reader.oldest_trees(9, now + 60_000)
        assert {(tree.root, tree.status) for tree in trees} == {(2, Status.OPEN), (4, Status.OPEN)}
        assert {tree.root for tree in reader.oldest_trees(9, now, [0])} == {2, 4}
        assert reader.oldest_trees(1, now, [1]) == []
        with pytest.raises(TraceError, match="has no partition 2: it has 2"):
            reader.oldest_trees(1, now, [0, 2])


def test_messages_of_a_kafka_spout_are_traced_and_exported(
    use: Use, monkeypatch: pytest.MonkeyPatch, acker: Acker
) -> None:
    """Trees of all attempts join the trace of their message; a message without `traceparent` has its own trace."""
    source = use("three_steps", 1, 2)
    # The partitions of the second topic are numbered from 4096 // 2 on.
    second, number = [*source.topics][1], 2048 + 1
    source.feed(["plain"])
    producer = Producer(source.bootstrap)
    producer.produce(second, b"once", partition=1, headers=[("other", b"x"), ("traceparent", TRACEPARENT.encode())])
    assert producer.flush(30) == 0
    name = source.name
    with in_threads(source.topology, source.bootstrap):
        source.await_all_committed()
    Catalogue(source.bootstrap).publish(source.manifest)
    printed, plain = (acker("--message", f"lines/{at}/0", "--topology", name, "--json") for at in (number, 0))
    first, *_, last = trees = trees_of(printed)
    assert (first["status"], first["reason"], last["status"]) == ("failed", "failed", "acked")
    assert first["verdict"].startswith("failed, by see/")
    for tree in trees:
        assert [each["traceparent"] for each in tree["tuples"]] == [TRACEPARENT] * 3
    (last_failed,) = trees_of(acker("--last-failed", "1", "--topology", name, "--json"))
    assert (last_failed["root"], last_failed["status"]) == (first["root"], "failed")
    (other,) = trees_of(plain)
    assert (other["status"], [each["traceparent"] for each in other["tuples"]]) == ("acked", [None] * 3)
    # Code in a bolt reads it, too.
    see = source.manifest.stream("copy", "default")
    seen = [each.values[0] for each in tuples_in(source.records(f"{name}.tuples.see"), see)]
    assert sum(each.endswith(f"once a {TRACEPARENT}") for each in seen) == 2
    assert sum(each.endswith("plain a None") for each in seen) == 1

    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.endpoint)
        sent = [acker("--message", f"lines/{at}/0", "--topology", name, "--otlp").stdout for at in (number, 0)]
        assert sent == ["sent 8 spans of 2 trees\n", "sent 4 spans of 1 trees\n"]
        resources = [resource for request in collector.requests for resource in request.resource_spans]
        spans = [span for resource in resources for scope in resource.scope_spans for span in scope.spans]
    Catalogue(source.bootstrap).withdraw(name)
    joined = [span for span in spans if span.trace_id.hex() == TRACE]
    assert len(joined) == 8
    assert [span.parent_span_id.hex() for span in joined if span.name == "tree of lines"] == [PARENT] * 2
    assert len({span.trace_id for span in spans if span not in joined}) == 1
