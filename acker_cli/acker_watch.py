"""Whether acker workers are at work for a topology whose command starts none."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.errors import ClusterError
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group

_log = logging.getLogger(__name__)

LOOK_S: Final = 2.0
"""After how long it is looked for workers, in seconds: those that start with the components have joined by then."""


@contextmanager
def warned_without_ackers(kafka: KafkaSettings, manifest: Manifest, look_s: float = LOOK_S) -> Iterator[None]:
    """Warns if no acker worker is in the group of the topology; does nothing where there is nothing to ack.

    The group is asked for once, because a client that asks again and again aborts its process where a broker goes away
    meanwhile (`docs/adr/0018`). A user who may not describe the group is not warned.

    Args:
        kafka: librdkafka properties.
        manifest: of the topology.
        look_s: when it is looked for them, in seconds.
    """
    over = threading.Event()
    group = acker_group(manifest.topology)

    def look() -> None:
        if over.wait(look_s):
            return
        try:
            members = ClusterStatus(kafka).members([group])[group]
        except ClusterError as error:
            _log.warning("whether an acker worker is at work is not known: %s", error)
            return
        if members == 0 and not over.is_set():
            _log.warning(
                "no acker worker is at work for topology %s (consumer group %s has no members): its trees are neither "
                "acked nor failed until there is one. Start one: acker worker --topology %s, or add --ackers 1 to "
                "acker run",
                *(manifest.topology, group, manifest.topology),
            )

    if manifest.acking:
        threading.Thread(target=look, name="acker-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
