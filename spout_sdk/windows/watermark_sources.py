"""The sources that the watermark of a task follows, and the source partitions that hold its windows open."""

from collections.abc import Sequence
from typing import Final

from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.emitting.task import Task
from tuple_tree.components import BoltManifest, SpoutManifest
from tuple_tree.positions import PARTITION_BITS

logger = get_logger("spout_sdk.windows")

WAITS_SECONDS: Final = 60.0
"""Seconds without an advance of the watermark after which the sources that hold it back are logged."""
_MOST_SHOWN: Final = 5
_PARTITION_MASK: Final = (1 << PARTITION_BITS) - 1


def log_waiting(by: str, windows: int, seconds: float, held_back_by: Sequence[int], spouts: Sequence[str]) -> None:
    """Logs the source partitions that hold windows open, if there are any.

    Args:
        by: component and task.
        seconds: for how long the watermark has not advanced.
        held_back_by: partition keys.
        spouts: the names of all spouts, in the order of the manifest.
    """
    if not held_back_by:
        return
    shown = [f"{spouts[key >> PARTITION_BITS]} {key & _PARTITION_MASK}" for key in held_back_by[:_MOST_SHOWN]]
    logger.info(
        "%s: %d windows are open, and the watermark has not advanced for %.0f s: not all messages of %d source "
        "partitions are done, or no younger tuple of them has come, of spout and partition %s%s",
        *(by, windows, seconds, len(held_back_by)),
        *(", ".join(shown), " …" if len(held_back_by) > _MOST_SHOWN else ""),
        extra=EACH,
    )


def sources_of(task: Task) -> tuple[list[int], list[str]]:
    """The indices of the `KafkaSpout`s upstream, and the received streams whose tuples have no identity."""
    manifest, sources = task.context.manifest, task.topology.kafka_sources
    indices = {spout.name: index for index, spout in enumerate(manifest.spouts)}
    upstream = [spout.name for spout in manifest.spouts_upstream(task.context.component)]
    declared = manifest.component(task.context.component)
    streams = []
    for each in declared.subscriptions if isinstance(declared, BoltManifest) else ():
        source = manifest.component(each.source)
        spouts = [source] if isinstance(source, SpoutManifest) else manifest.spouts_upstream(each.source)
        if source.external or any(spout.name not in sources for spout in spouts):
            streams.append(f"{each.source}/{each.stream}")
    return [indices[name] for name in upstream if name in sources], streams
