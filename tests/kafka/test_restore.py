"""Restoring a state from a changelog that was written in transactions: committed, aborted, and open ones."""

import uuid
from pathlib import Path
from threading import Timer

from confluent_kafka import Producer

from kafka_clients.catalogue import Catalogue
from spout_sdk import Topology
from spout_sdk.state.restore import RestoreProgress, Restorer
from tests.manifests import counting, manifest, spout
from tuple_tree.names import state_topic
from tuple_tree.state_records import ABOUT_KEY


def test_a_restore_has_what_is_committed_and_waits_for_transactions_that_are_open(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    kafka = {"bootstrap.servers": bootstrap_servers}
    name = f"restore-{uuid.uuid4().hex[:8]}"
    topology = Topology(manifest(spout("lines"), counting("count", "lines", tasks=2), topology=name), {})
    Catalogue(kafka).create_topics(topology.manifest, 1)
    topic = state_topic(name, "count")
    waiting: list[RestoreProgress] = []
    owner, zombie = (Producer({**kafka, "transactional.id": f"{name}.{each}"}) for each in "ab")
    owner.init_transactions()

    def commit(task: int, **values: bytes | None) -> None:
        owner.begin_transaction()
        owner.produce(topic, restorer.about.to_json(), ABOUT_KEY, task)
        for key, value in values.items():
            owner.produce(topic, value, key.encode(), task)
        owner.commit_transaction()

    def on_progress(progress: RestoreProgress) -> None:
        waiting.append(progress)
        if len(waiting) == 5:  # it has read what is before the open transaction
            Timer(0, zombie.abort_transaction, (10,)).start()

    restorer = Restorer(topology, "count", kafka, tmp_path, on_progress)
    commit(0, a=b"1", b=b"2")
    commit(1, c=b"3")
    zombie.init_transactions()
    zombie.begin_transaction()
    zombie.produce(topic, b"9", b"a", 0)
    zombie.flush(10)
    commit(0, b=None, d=b"4")  # behind the open transaction, so the consumer does not read it yet
    stores = {task: restorer.open(task) for task in (0, 1)}
    restorer.restore(stores)
    assert {key: value for key, value, _ in stores[0].items()} == {b"a": b"1", b"d": b"4"}
    assert stores[1].get(b"c") == b"3"
    assert {task: store.position for task, store in stores.items()} == restorer.ends([0, 1])
    assert any(progress.left and progress.records >= 5 for progress in waiting)

    for store in stores.values():
        store.close()
    waiting.clear()
    commit(0, a=b"5")
    again = {task: restorer.open(task) for task in (0, 1)}
    restorer.restore(again)
    assert again[0].get(b"a") == b"5"
    assert waiting[-1].records == 2, "only what is new"
    for store in again.values():
        store.close()
    restorer.close()
