"""`acker topologies`: list, show, delete; and `acker worker` for all topologies."""

import re
from functools import partial
from typing import Any

import pytest

from acker_cli.cluster import removal as topology_removal
from acker_cli.cluster.publishing import check_accepted, planned
from acker_cli.cluster.removal import Removal
from acker_cli.errors import CliError
from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import AccessError
from spout_sdk.statistics import Stats
from tests.kafka.ack_log import AckLog
from tests.unit.cli.running import Acker, call_acker, json_of, one_line
from tests.waiting import eventually
from tuple_tree.errors import ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group, acks_topic, stats_topic, tuples_topic
from tuple_tree.process_stats import StatsRecord


@pytest.fixture
def acker(bootstrap_servers: str) -> Acker:
    return partial(call_acker, "topologies", servers=bootstrap_servers)


def test_topics_that_were_deleted_since_they_were_listed_have_no_partitions(log: AckLog) -> None:
    deleted = log.manifest.model_copy(update={"topology": f"{log.topology}-deleted"})
    listed = dict.fromkeys((acks_topic(log.topology), acks_topic(deleted.topology)), 2)
    status, gone = ClusterStatus(log.kafka).of([log.manifest, deleted], listed)
    assert sum(len(topic.partitions) for topic in status.topics) == 2
    assert not any(topic.partitions for topic in gone.topics)


def test_changed_fields_are_not_published_under_running_processes(log: AckLog) -> None:
    spout, bolt = log.manifest.components
    streams = tuple(each.model_copy(update={"codec": "json"}) for each in spout.streams)
    changed = log.manifest.model_copy(update={"components": (spout.model_copy(update={"streams": streams}), bolt)})

    def refused(*, force: bool = False) -> str:
        steps = planned(log.kafka, log.catalogue, changed, force=force)
        return "; ".join(step.text for step in steps if step.by == "refused")

    def report(*, ended: bool) -> None:
        record = StatsRecord("component", "b", "host", 7, "run", 1_000, ended, Stats("b").to_dict())
        log.produce(stats_topic(log.topology), 0, record.to_json(), key=record.key)

    assert refused() == ""
    report(ended=False)
    assert "must be stopped first are running (b: 1)" in refused()
    with pytest.raises(CliError, match=r"was not changed: stream 'default' .* \(json\), and had "):
        check_accepted(log.topology, planned(log.kafka, log.catalogue, changed, force=False))
    assert refused(force=True) == ""
    report(ended=True)
    assert refused() == ""


def test_a_user_who_may_not_read_the_manifests_is_warned(log: AckLog, caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(Catalogue):
        def manifests(self) -> dict[str, Manifest | ManifestError]:
            raise AccessError("topic acker.topologies may not be read by this user")

    steps = planned(log.kafka, Refusing(log.kafka), log.manifest, force=False)
    assert [step.by for step in steps] == ["command"]
    assert "it is not known whether" in caplog.text


def test_list_and_show_have_topics_processes_and_backlog(acker: Acker, log: AckLog) -> None:
    name = log.topology
    for root in range(2, 12, 2):
        log.send(root, init=5)
        log.flush()
    log.produce(tuples_topic(name, "b"), 0, b"{}")

    def row() -> dict[str, Any]:
        (found,) = (row for row in json_of(acker("list", "--json"))["topologies"] if row["topology"] == name)
        return dict(found)

    assert row() == {
        "topology": name,
        "state": "running",
        "guarantee": "at_least_once",
        "spouts": ["s"],
        "bolts": ["b"],
        "ack_partitions": 2,
        "missing_topics": [],
        "ackers": 0,
        "ack_lag": 5,
        "lag": 1,
    }
    with log.worker():
        eventually(lambda: log.committed()[0][0] == 5, "the commit")
        shown = json_of(acker("show", name, "--json"))
        assert ", 1 acker\n" in acker("show", name).stdout
    assert (shown["topology"], shown["ackers"]) == (name, 1)
    assert [component["name"] for component in shown["components"]] == ["s", "b"]
    topics = {topic["name"]: topic for topic in shown["topics"]}
    assert set(topics) == {f"{name}.{each}" for each in ("acks", "notices.s", "tuples.b", "dead-letters", "stats")}
    acks = topics[log.topic]
    assert (acks["group"], acks["lag"], acks["problem"]) == (acker_group(name), 0, None)
    behind = dict.fromkeys(("done_ahead", "open_ahead", "open_runs", "failures"), 0)
    assert acks["partitions"][0] == {"partition": 0, "begin": 0, "end": 5, "committed": 5, "lag": 0, **behind}
    assert topics[f"{name}.tuples.b"]["lag"] == 1
    plain = acker("show", name).stdout
    assert f"topology {name}, at_least_once, 2 ack partitions, tick 0.2 s" in plain
    assert re.search(r"b +bolt +1 +0 +1 +s/default shuffle", plain)
    assert re.search(rf"{name} +running +at_least_once +1 +1 +2 +all 5 +0 +0 +1\s", acker("list").stdout)

    log.delete_topic(tuples_topic(name, "b"))
    missing = acker("show", name)
    assert missing.returncode == 1
    assert "does not exist" in missing.stdout
    assert row()["missing_topics"] == [tuples_topic(name, "b")]


def test_a_topology_is_deleted_unless_it_runs(acker: Acker, log: AckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    name = log.topology
    catalogue = log.catalogue
    for command in ("show", "delete"):
        assert "no topology 'no-such'" in one_line(acker(command, "no-such"))
    assert "cannot be used" in one_line(acker("delete", "acker.topologies", "--yes"))
    without_yes = acker("delete", name)
    assert "--yes continues without asking" in one_line(without_yes)
    assert f"  topic  {log.topic}, with all that is in it\n" in without_yes.stdout

    # With its topics kept it can be published again, and its open tree is still there.
    with log.worker():
        log.send(2, init=5)
        log.flush()
        eventually(lambda: log.committed()[0][0] == 1, "the commit")
    assert acker("delete", name, "--yes", "--keep-topics").returncode == 0
    assert name not in catalogue.manifests()
    catalogue.create_topics(log.manifest)
    catalogue.publish(log.manifest)
    with log.worker() as worker:
        eventually(lambda: worker.stats.pending == 1, "the tree")

    with log.member():
        refused = one_line(acker("delete", name, "--yes"))
        assert f"group {name}.b has 1 members" in refused
        assert "--force" in refused
        assert name in catalogue.manifests()

    # The worker of this topology has to be stopped; the deletion ends half done, and is repeated.
    monkeypatch.setattr(topology_removal, "Removal", partial(Removal, leave_s=0.5))
    with log.worker():
        stuck = one_line(acker("delete", name, "--yes"))
        assert f"Stop the acker workers that were started with --topology {name}" in stuck
        assert name not in catalogue.manifests()
        assert log.topic in catalogue.topics()
    # By force, although the bolt is there again: its group stays.
    with log.member():
        done = json_of(acker("delete", name, "--yes", "--force", "--json"))
        assert not done["withdrawn"]
        (left,) = done["left"]
        assert f"group {name}.b" in left
        assert log.topic in done["topics"]
        # For a moment after it has confirmed the deletion, a broker still lists the topic.
        eventually(lambda: log.topic not in catalogue.topics(), "the topic is gone")
