"""Writes dead letters, and reads what is committed in a topic.

As a program: a replay that kills itself at its n-th commit, `before` or `after` it.
"""

import os
import signal
import sys
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from acker_cli import replaying
from inspection.dead_letters import Replayer, Selection
from tests.waiting import eventually
from tuple_tree.dead_letters import dead_letter_headers
from tuple_tree.names import dead_letters_topic
from tuple_tree.watermarks import watermarks

ANCHORS: Final = bytes(range(16))


def write_dead_letters(
    kafka: dict[str, Any],
    topology: str,
    topic: str,
    values: list[bytes | None],
    *,
    partition: int = 0,
    reason: str = "exception",
    by: str = "b/0",
) -> None:
    """Writes dead letters as a component does."""
    producer = Producer(kafka)
    for number, value in enumerate(values):
        producer.produce(
            dead_letters_topic(topology),
            value,
            key=b"key",
            partition=0,
            headers=[
                ("anchors", ANCHORS),
                ("source", b"s/default"),
                ("traceparent", b"00-1"),
                *dead_letter_headers(topic, partition, number, reason=reason, detail="ValueError: no", by=by),
            ],
        )
    assert producer.flush(30) == 0


def committed(kafka: dict[str, Any], topic: str, partition: int = 0) -> list[Message]:
    """The records of a partition that are committed, once no transaction is open there."""
    consumer = Consumer(
        {**kafka, "group.id": "replaying-test", "enable.partition.eof": True, "isolation.level": "read_committed"}
    )
    at = TopicPartition(topic, partition, 0)
    consumer.assign([at])
    found: list[Message] = []

    def is_at_the_end() -> bool:
        for message in consumer.consume(1_000, 0.1):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                probe = Consumer({**kafka, "group.id": "replaying-test", "isolation.level": "read_uncommitted"})
                try:
                    if message.offset() == watermarks(probe, at, 30)[1]:
                        return True
                finally:
                    probe.close()
        return False

    try:
        eventually(is_at_the_end, f"the end of {topic}")
    finally:
        consumer.close()
    return found


def values(messages: list[Message]) -> list[bytes | str | None]:
    return [message.value() for message in messages]


def _die_at(moment: str, number: int) -> type[Replayer]:
    class Dying(Replayer):
        commits = 0

        def _commit(self) -> None:
            self.commits += 1
            if (moment, self.commits) == ("before", number):
                os.kill(os.getpid(), signal.SIGKILL)
            super()._commit()
            if (moment, self.commits) == ("after", number):
                os.kill(os.getpid(), signal.SIGKILL)

    return Dying


if __name__ == "__main__":
    servers, topology, moment, number = sys.argv[1:]
    setattr(replaying, "Replayer", _die_at(moment, int(number)))  # noqa: B010 - a class is not to be assigned to
    replaying.replay_letters(
        {"bootstrap.servers": servers},
        replaying.Wanted(topology, Selection(), 1_000),
        dry_run=False,
        yes=True,
        as_json=True,
    )
