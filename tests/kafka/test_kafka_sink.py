"""What lingers in a producer goes out once the input has run dry."""

from spout_sdk.kafka_sink import KafkaSink
from tests.kafka.sdk_rig import Cluster, Use
from tests.waiting import eventually
from tuple_tree.names import tuples_topic


def sent(cluster: Cluster, inbox: str) -> int:
    return len(cluster.records(inbox))


def test_what_lingers_goes_out_when_it_is_pushed(use: Use) -> None:
    cluster = use("holding")
    inbox = tuples_topic(cluster.manifest.topology, "hold")
    # Much longer than the test waits.
    sink = KafkaSink({**cluster.kafka, "linger.ms": 200_000})

    def send() -> None:
        sink.send(inbox, 0, None, b"x", [], lambda *_: None)

    # So that the producer has its connection.
    send()
    assert sink.flush(30) == 0
    assert sent(cluster, inbox) == 1
    send()
    sink.poll()
    assert sent(cluster, inbox) == 1

    def pushed() -> bool:
        # A busy machine may need more than the millisecond of one push.
        send()
        sink.push()
        return sent(cluster, inbox) > 1

    eventually(pushed, "tuples to go out long before they have lingered")
    assert sink.flush(30) == 0
