"""What users may set, and what the guarantees rest on."""

from spout_sdk.kafka_settings import TRANSACTION_MS, consumer_settings, transactional_settings

MEDDLING = {
    "bootstrap.servers": "kafka:9092",
    "isolation.level": "read_uncommitted",
    "enable.auto.commit": True,
    "enable.idempotence": False,
    "acks": "1",
    "transactional.id": "mine",
}


def test_nobody_changes_what_the_guarantees_rest_on() -> None:
    reads = consumer_settings(MEDDLING, "group")
    assert (reads["isolation.level"], reads["enable.auto.commit"]) == ("read_committed", False)
    assert "transactional.id" not in reads
    writes = transactional_settings(MEDDLING, "words.split.1")
    assert (writes["transactional.id"], writes["enable.idempotence"], writes["acks"]) == ("words.split.1", True, "all")
    assert "isolation.level" not in writes


def test_how_long_a_transaction_may_last_is_the_users_to_say() -> None:
    assert transactional_settings({}, "id")["transaction.timeout.ms"] == TRANSACTION_MS
    assert transactional_settings({"transaction.timeout.ms": 60_000}, "id")["transaction.timeout.ms"] == 60_000
