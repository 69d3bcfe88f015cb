"""Checks bolts that answer the messages of spouts."""

from collections.abc import Mapping
from typing import Any, Final

from spout_sdk.api.components import BasicBolt, BatchBolt, Bolt
from spout_sdk.bolts.async_bolt import AsyncBolt
from spout_sdk.errors import TopologyError
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.state.bolt import StatefulBolt
from tuple_tree.manifest import Manifest

_ANSWERING: Final = (Bolt, BasicBolt, BatchBolt, StatefulBolt, AsyncBolt)


def check_answers(manifest: Manifest, made: Mapping[str, Any]) -> None:
    """Raises `TopologyError` for a bolt with `answers` that cannot answer, or receives no messages to answer."""
    for bolt in manifest.bolts:
        if not bolt.answers:
            continue
        kind = made[bolt.name] if isinstance(made[bolt.name], type) else type(made[bolt.name])
        if not issubclass(kind, _ANSWERING):
            raise TopologyError(
                f"bolt {bolt.name!r} has answers = True, but its collector has no answer(): derive it from "
                f"{', '.join(each.__name__ for each in _ANSWERING)}"
            )
        if not manifest.acking:
            raise TopologyError(
                f'bolt {bolt.name!r} answers, but guarantee="at_most_once" follows no trees, so no message has an '
                "outcome: use at_least_once or exactly_once, or remove answers"
            )
        upstream = [made[spout.name] for spout in manifest.spouts_upstream(bolt.name)]
        if not any(isinstance(spout, KafkaSpout) for spout in upstream):
            raise TopologyError(
                f"bolt {bolt.name!r} answers, but receives nothing from a KafkaSpout: only the messages of such "
                "spouts can be answered. Add one, or remove answers"
            )
