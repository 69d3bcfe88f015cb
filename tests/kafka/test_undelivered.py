"""A tuple that a real broker does not take."""

import os
import time

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from acker_worker.catalogue import Catalogue
from spout_sdk import load_topology
from spout_sdk.counters import Counters
from spout_sdk.kafka_sink import KafkaSink
from spout_sdk.records import TaskEnvironment
from spout_sdk.spout_task import SpoutTask
from tests.kafka.sdk_rig import Cluster, Use, headers_of
from tests.waiting import eventually
from tuple_tree.anchors import unpack_anchors
from tuple_tree.names import tuples_topic


def limit_records(cluster: Cluster, topic: str, size: int) -> None:
    """Limits the size of a topic's records, and waits until the broker says so."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient(cluster.bootstrap)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)
    catalogue = Catalogue(cluster.bootstrap)
    eventually(lambda: catalogue._configs([topic])[topic]["max.message.bytes"] == str(size), "the limit in force")


def test_the_trees_of_a_tuple_that_the_broker_refuses_fail_and_those_of_others_do_not(use: Use) -> None:
    cluster = use("holding")
    inbox = tuples_topic(cluster.manifest.topology, "hold")
    limit_records(cluster, inbox, 2_000)
    counters = Counters()
    sink = KafkaSink(cluster.kafka, counters)
    environment = TaskEnvironment(sink, counters, time.monotonic, os.urandom)
    task = SpoutTask(load_topology("tests.kafka.sdk_topologies:holding"), "lines", 0, environment)
    task.open_session()
    task.open()
    task.collector.emit((1, 0, "short"), "m1")
    assert sink.flush(30) == 0
    task.collector.emit((2, 0, os.urandom(4_000).hex()), "m2")

    def refused() -> bool:
        sink.poll()
        return counters.undelivered == 1

    eventually(refused, "the broker refuses the long one")
    task.flush()
    assert sink.flush(30) == 0
    (record,) = cluster.records(inbox)
    (delivered,) = unpack_anchors(headers_of(record)["anchors"])
    batches = cluster.batches()
    begun = {root for batch in batches for root in batch.init_roots.tolist()}
    failed = {root: batch.fail_messages for batch in batches for root in batch.fail_roots.tolist()}
    assert len(begun) == 2
    assert failed.keys() == begun - {delivered}
    ((said,),) = failed.values()
    assert said.startswith("a tuple of lines was not delivered: ")
