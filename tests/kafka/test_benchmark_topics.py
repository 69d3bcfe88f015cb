"""Counts and times of a topic, as benchmarks read them."""

import uuid

import pytest
from confluent_kafka import Producer

from benchmarks.harness import BenchmarkError
from benchmarks.topics import Topics
from tests.waiting import eventually


def test_the_append_time_of_an_end_that_is_a_transaction_s_marker(bootstrap_servers: str) -> None:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    topics = Topics(bootstrap_servers)
    topics.create({topic: 1})
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)
    with pytest.raises(BenchmarkError, match="no record up to offset 0"):
        topics.appended_at(topic, 0)
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(topic, b"payload", partition=0)
        producer.commit_transaction(60)
    # A marker behind each record; the last comes after the answer that its transaction has ended.
    eventually(lambda: topics.end(topic) == 6, "the last transaction's marker")
    first, last = topics.appended_at(topic, 0), topics.appended_at(topic, 4)
    assert first <= last
    assert topics.appended_at(topic, 5) == last
    assert topics.appended_at(topic, 1) == first
    # Not yet committed, and appended all the same.
    producer.begin_transaction()
    producer.produce(topic, b"payload", partition=0)
    producer.flush(60)
    assert topics.appended_at(topic, 6) >= last
    producer.abort_transaction(60)
    topics.close()
