"""The records of answers: what a bolt writes for the client that waits for a message."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from spout_sdk.errors import TopologyError
from spout_sdk.records import Headers
from tuple_tree.answer_records import answer_partition, kind_header, tree_key
from tuple_tree.manifest import Manifest
from tuple_tree.names import answers_topic


def answer_payload(manifest: Manifest, bolt: str, value: Any) -> bytes:
    """An answer of a bolt, as it is written.

    Raises:
        TopologyError: if the bolt does not declare that it answers.
        TypeError: if the value is not JSON.
        ValueError: if the value contains NaN or an infinity.
    """
    if not getattr(manifest.component(bolt), "answers", False):
        raise TopologyError(
            f"bolt {bolt!r} answers, but does not declare it: set answers = True in its class, and run "
            "acker topics create"
        )
    return json.dumps(value, allow_nan=False).encode()


def answer_records(
    manifest: Manifest, roots: Sequence[int], payload: bytes
) -> Iterator[tuple[str, bytes, bytes, Headers, int]]:
    """The record of an answer for each tree: topic, value, key, headers and partition."""
    topic = answers_topic(manifest.topology)
    headers: Headers = [kind_header("answer")]
    for root in roots:
        yield topic, payload, tree_key(root), headers, answer_partition(root, manifest.ack_partitions)
