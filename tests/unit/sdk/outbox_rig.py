"""An outbox without a task, and packs of a stream."""

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from spout_sdk.emitting.ack_log import AckLog
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.outbox import Joined, Outbox
from spout_sdk.records import Headers, TaskEnvironment
from spout_sdk.statistics.stats import Counters
from tests.packs import tuples_of
from tests.unit.sdk.memory import MemorySink, open_pack, opened
from tuple_tree.anchors import Edges
from tuple_tree.ids import random_ids
from tuple_tree.input_batch import InputBatch
from tuple_tree.messages import SpoutAddress
from tuple_tree.payloads import payload_codec
from tuple_tree.streams import Stream, declare

STREAM = declare({"text": str, "number": int})
SOURCE = ("source", b"one/default")
SESSION = bytes(range(16))


class OutboxRig:
    """An outbox, packs of a stream for some tasks, and inputs; what is sent is in `sink`."""

    def __init__(
        self,
        stream: Stream = STREAM,
        *,
        tasks: int = 1,
        pack_tuples: int = 1_000,
        partitions: int = 4,
        sink: MemorySink | None = None,
        spout: SpoutAddress | None = None,
        sends_inits_first: bool = False,
    ) -> None:
        self.sink = sink or MemorySink()
        self.inputs = InputOffsets()
        entropy = random.Random(1).randbytes
        environment = TaskEnvironment(self.sink, Counters(), time.monotonic, entropy)
        self.acks = AckLog("t.acks", partitions, "split/0", SESSION, self.sink, time.monotonic, self.inputs, spout)
        next_id = random_ids(entropy).__next__
        self.outbox = Outbox("split", environment, self.acks, next_id, sends_inits_first=sends_inits_first)
        self.stream, self.codec = stream, payload_codec(stream)
        self.packs = [
            OpenPack("t.tuples.b", task, self.codec, SOURCE, pack_tuples, Counters()) for task in range(tasks)
        ]

    def add_row(self, row: Any, places: Sequence[tuple[InputBatch, int]], task: int = 0) -> None:
        """Adds a tuple to a pack, anchored to places."""
        pack = self.packs[task]
        match places:
            case []:
                places = [(InputBatch(is_tracked=False), 0)]
                self.outbox.turn(pack, places[0][0])
            case [(batch, _)]:
                if pack.batch is not batch:
                    self.outbox.turn(pack, batch)
            case _:
                self.outbox.turn(pack, Joined(places, []))
        if self.codec.max_rows == 1:
            pack.keys[pack.size] = b"key"
        pack.rows.append(row)
        pack.places.append(places[-1][1])
        if pack.size >= pack.limit:
            self.outbox.send_full([pack])

    def add(self, values: tuple[Any, ...], roots: Sequence[int], task: int = 0, trace_context: Any = None) -> None:
        """Adds a tuple that is anchored to an input of its own in each of these trees."""
        batch = InputBatch(trace_context)
        batch.add(np.array(roots, np.uint64), np.zeros(len(roots), np.uint64))
        untracked = [(InputBatch(trace_context, is_tracked=False), 0)] if trace_context else []
        self.add_row(self.codec.row(values), [(batch, at) for at in range(len(roots))] or untracked, task)

    def ack(self, root: int, edge: int = 1) -> None:
        """Acks an input in a tree."""
        batch = InputBatch()
        self.outbox.acked.add(batch, batch.add(np.array([root], np.uint64), np.array([edge], np.uint64)))

    def read(self, *roots: int) -> None:
        """Reads and acks inputs, each alone in a record whose offset is its root."""
        for root in roots:
            pack = opened(self.inputs, open_pack(root))
            self.ack(root)
            self.outbox.covered.append(pack)

    def sent(self) -> dict[int, list[tuple[Any, Edges, Headers]]]:
        """Task → values, edges and trace context of sent tuples."""
        found = defaultdict(list)
        for sent in self.sink.tuples:
            context = [header for header in sent.headers if header[0] == "traceparent"]
            for values, edges in tuples_of(sent.value or b"", sent.headers, self.stream):
                found[sent.partition].append((values, edges, context))
        return dict(found)
