"""Writes dead letters.

As a program: a replay that kills itself at its n-th commit, `before` or `after` it.
"""

import os
import signal
import sys
from typing import Any, Final

from confluent_kafka import Producer

from acker_cli.cluster import replay as replaying
from inspection.dead_letters import Selection
from inspection.replay import Replayer
from tuple_tree.headers import dead_letter_headers
from tuple_tree.names import dead_letters_topic

ANCHORS: Final = bytes(range(20))


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
                ("identities", bytes(8)),
                ("source", b"s/default"),
                ("traceparent", b"00-1"),
                *dead_letter_headers(topic, partition, number, reason=reason, detail="ValueError: no", by=by),
            ],
        )
    assert producer.flush(30) == 0


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
        replaying.ReplayRequest(topology, Selection(), 1_000),
        dry_run=False,
        yes=True,
        as_json=True,
    )
