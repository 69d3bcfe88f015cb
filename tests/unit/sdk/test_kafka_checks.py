"""The topics that a process checks before it starts."""

from kafka_clients.access import Operation
from spout_sdk.kafka.kafka_checks import topics_of
from tests.chained_clicks import topology


def test_a_process_checks_the_topics_of_its_chained_bolts() -> None:
    read, write = (Operation.READ,), (Operation.WRITE,)
    assert topics_of(topology, "clicks") == {
        "chained-clicks.notices.clicks": read,
        "chained-clicks.acks": write,
        "chained-clicks.tuples.count": write,
        "chained-clicks.dead-letters": write,
        "chained-clicks-clicks": read,
        "chained-clicks-lines": write,
    }
    assert "chained-clicks-lines" not in topics_of(topology, "count")
