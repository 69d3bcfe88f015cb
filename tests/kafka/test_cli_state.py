"""`acker state`: keys are read from the changelog, exported, and deleted once the bolt is stopped."""

import json
import uuid
from functools import partial
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from inspection.doctor.facts import TopologyFacts
from inspection.doctor.topic_checks import check_states
from inspection.doctor_gathering import gather_facts
from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import Catalogue
from spout_sdk import Topology
from spout_sdk.state import StateView
from spout_sdk.state.applied import APPLIED_PREFIX, DONE_PREFIX
from spout_sdk.state.restore import Restorer
from tests.manifests import counting, manifest, spout
from tests.unit.cli.running import call_acker, json_of
from tuple_tree.routing import fields_task
from tuple_tree.state_records import ABOUT_KEY, SYSTEM_PREFIX, About


def facts_of(kafka: dict[str, str], topology: str) -> TopologyFacts:
    """The facts of a topology that the doctor checks."""
    (facts,) = gather_facts(kafka, topology, None, 0, lambda _line: None).topologies
    return facts


@pytest.mark.usefixtures("nothing_runs")
def test_a_state_is_read_exported_and_reset(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = {"bootstrap.servers": bootstrap_servers}
    name = f"state-{uuid.uuid4().hex[:8]}"
    topology = Topology(manifest(spout("lines"), counting("count", "lines", tasks=2), topology=name), {})
    catalogue = Catalogue(kafka)
    catalogue.create_topics(topology.manifest, 1)
    catalogue.publish(topology.manifest)
    acker = partial(call_acker, "state", servers=bootstrap_servers)
    # The task of partition 0 has processed tuples, and left nothing.
    processed = ConsumerGroupTopicPartitions(f"{name}.count", [TopicPartition(f"{name}.tuples.count", 0, 7)])
    for each in catalogue.admin.alter_consumer_group_offsets([processed]).values():
        each.result()
    assert facts_of(kafka, name).abouts == {(f"{name}.state.count", 0): b""}
    producer = Producer(kafka)
    source = f"{name}.tuples.count"  # any topic
    for task, id_ in enumerate((catalogue.topic_id(source) or "", "id-of-an-earlier-topic")):
        about = About.of(topology.manifest, "count", {"lines": {source: id_}})
        producer.produce(f"{name}.state.count", about.to_json(), ABOUT_KEY, task)
    for word, count in (("to", 2), ("be", 3), ("or", 1), ("not", 1)):
        key = word.encode()
        producer.produce(f"{name}.state.count", b'{"count":%d}' % count, key, fields_task(key, 2))
    for system in (APPLIED_PREFIX + bytes(8), DONE_PREFIX + bytes(4), SYSTEM_PREFIX + b"other"):
        producer.produce(f"{name}.state.count", b"x", system, 1)
    assert producer.flush(10) == 0
    (recreated,) = check_states(facts_of(kafka, name))
    assert f"earlier topic '{source}' in partition 1: the topic was deleted and created again" in recreated.found

    assert acker("get", name, "count", "to").stdout == '{"count": 2}\n'
    found = json_of(acker("get", name, "count", "to", "--json"))
    assert (found["key"], found["value"], found["task"]) == ({"word": "to"}, {"count": 2}, fields_task(b"to", 2))
    shown = call_acker("topologies", "show", name, servers=bootstrap_servers)
    assert "state of count: each tuple once, unless tuples come of several inputs" in shown.stdout
    missing = acker("get", name, "count", "nothing")
    assert (missing.returncode, "has no key nothing: acker state list" in missing.stderr) == (1, True)
    page = acker("list", name, "count", "--limit", "2", "--after", "be")
    assert [json.loads(line)["key"]["word"] for line in page.stdout.splitlines()] == ["not", "or"]
    assert page.stderr == "2 of 4 keys; next page: --after or\n"
    for ending in ("parquet", "csv", "jsonl"):
        path = tmp_path / f"counts.{ending}"
        assert acker("export", name, "count", str(path)).stderr == f"wrote 4 keys to {path}\n"
        if ending == "jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            counts = [(row["key"]["word"], row["value"]["count"]) for row in rows]
        else:
            table = pyarrow.parquet.read_table(path) if ending == "parquet" else pyarrow.csv.read_csv(path)
            assert table.column_names == ["word", "count", "changed"]
            counts = [*zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True)]
        assert counts == [("be", 3), ("not", 1), ("or", 1), ("to", 2)]
    assert "exists: --force replaces it" in acker("export", name, "count", str(tmp_path / "counts.csv")).stderr
    for ending in ("parquet", "jsonl"):
        nowhere = acker("export", name, "count", str(tmp_path / "none" / f"counts.{ending}"))
        assert nowhere.returncode == 1
        assert f"counts.{ending} cannot be written: " in nowhere.stderr

    with monkeypatch.context() as running:
        running.setattr(ClusterStatus, "members", lambda _self, groups: dict.fromkeys(groups, 2))
        assert f"group {name}.count has members (2). Stop" in acker("reset", name, "count", "--yes").stderr
    assert acker("reset", name, "count", "or", "--yes").stdout == f"deleted key or of {name}.state.count\n"
    assert acker("get", name, "count", "or").returncode == 1
    assert acker("reset", name, "count", "--keep-values", "--yes").returncode == 0
    with StateView(name, "count", kafka) as view:
        assert {key for _, key in view.system_keys()} == {ABOUT_KEY, SYSTEM_PREFIX + b"other"}
        assert len(view) == 3
    assert "there is no prompt" in acker("reset", name, "count").stderr
    before = catalogue.topic_id(f"{name}.state.count")
    reset = acker("reset", name, "count", "--yes")
    assert reset.stdout == f"deleted all keys of {name}.state.count\n", reset.stderr
    assert catalogue.topic_id(f"{name}.state.count") != before
    assert acker("list", name, "count").stderr == "0 of 0 keys\n"
    described = About.of(topology.manifest, "count").to_json()
    assert facts_of(kafka, name).abouts == {(f"{name}.state.count", task): described for task in range(2)}
    restorer = Restorer(topology, "count", kafka)
    stores = {task: restorer.open(task) for task in range(2)}
    restorer.restore(stores)
    assert [store.get(ABOUT_KEY) for store in stores.values()] == [restorer.about.to_json()] * 2
    restorer.close()
