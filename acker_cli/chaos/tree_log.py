"""The trees of a topology: its ack log, folded once from the beginning, and the notices that its ackers have sent."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from confluent_kafka import Message

from acker_worker.fold import LogRecord, PartitionFold
from acker_worker.ledger import LedgerSettings
from kafka_clients.log_reader import LogReader, Place, Progress
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason, decode_ack_batch, decode_notice_batch
from tuple_tree.names import acks_topic, notices_topic

_NONE: Final = np.empty(0, np.uint64)
_RECORDS: Final = 1_000  # that are folded together


@dataclass(frozen=True, slots=True)
class Trees:
    """Columns of roots, sorted, shape `(n,)`.

    Attributes:
        begun: with an init in the ack log; `new`: with one of this run.
        acked: by the fold.
        acked_notices: with a notice that they are acked.
        failed_notices: with a notice that they failed; a message that is retried has several roots.
        reasons: of these, each with its number of trees.
    """

    begun: IdColumn = field(default_factory=lambda: _NONE)
    new: IdColumn = field(default_factory=lambda: _NONE)
    acked: IdColumn = field(default_factory=lambda: _NONE)
    acked_notices: IdColumn = field(default_factory=lambda: _NONE)
    failed_notices: IdColumn = field(default_factory=lambda: _NONE)
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def false_acks(self) -> IdColumn:
        """The roots that an acker has acked, and the fold has not."""
        return np.setdiff1d(np.intersect1d(self.acked_notices, self.begun), self.acked)

    @property
    def without_notice(self) -> IdColumn:
        """The roots of this run that the fold has acked, and no acker has sent a notice of."""
        known = np.union1d(self.acked_notices, self.failed_notices)
        return np.setdiff1d(np.intersect1d(self.acked, self.new), known)


class TreeLog:
    """Reads the trees of a topology; `began` has the ends of its ack log when the run began.

    One fold over the whole log sees no crash, no rebuild and no rebalance. By the same records, those in whose
    workers all these happened must not have acked more.
    """

    def __init__(self, manifest: Manifest, began: Mapping[Place, int]) -> None:
        self._manifest, self._began = manifest, began
        settings, partitions = LedgerSettings.of(manifest), manifest.ack_partitions
        self._folds = [PartitionFold(number, partitions, settings) for number in range(partitions)]
        self._records: list[list[LogRecord]] = [[] for _ in self._folds]
        self._columns: dict[str, list[IdColumn]] = {name: [] for name in Trees.__annotations__ if name != "reasons"}
        self._reasons = Counter[str]()

    def read(self, kafka: Mapping[str, Any], progress: Progress | None = None) -> Trees:
        """Reads both logs to their ends. Raises `BrokerError`, and `UnsupportedVersionError`."""
        topology, acks = self._manifest.topology, acks_topic(self._manifest.topology)
        spouts = self._manifest.spouts
        notices = [(notices_topic(topology, each.name), task) for each in spouts for task in range(each.tasks)]
        with LogReader(kafka, progress) as reader:
            log = reader.offset_ranges([(acks, number) for number in range(self._manifest.ack_partitions)])
            reader.read("ack log", log, self._take_acks)
            for number in range(len(self._folds)):
                self._fold(number)
            reader.read("notices", reader.offset_ranges(notices), self._take_notices)
        return Trees(
            **{name: np.unique(np.concatenate([_NONE, *found])) for name, found in self._columns.items()},
            reasons=dict(self._reasons),
        )

    def _take_acks(self, message: Message) -> None:
        number, offset = message.partition() or 0, message.offset() or 0
        try:
            inits = decode_ack_batch(message.value()).init_roots.astype(np.uint64)
        except WireError:  # the fold rejects it, as an acker has
            inits = _NONE
        self._columns["begun"].append(inits)
        if offset >= self._began.get((message.topic() or "", number), 0):
            self._columns["new"].append(inits)
        self._records[number].append(LogRecord(offset, message.timestamp()[1], message.value()))
        if len(self._records[number]) >= _RECORDS:
            self._fold(number)

    def _fold(self, number: int) -> None:
        records, self._records[number] = self._records[number], []
        for outcomes in self._folds[number].apply(records).outcomes.values():
            marked = np.array([root for root, *_ in outcomes.marked], np.uint64)
            self._columns["acked"] += [*outcomes.acked, marked]

    def _take_notices(self, message: Message) -> None:
        try:
            batch = decode_notice_batch(message.value())
        except WireError:
            return
        for roots in (batch.acked_roots, batch.marked_roots):
            self._columns["acked_notices"].append(roots.astype(np.uint64))
        self._columns["failed_notices"].append(batch.failed_roots.astype(np.uint64))
        self._reasons.update(FailReason(reason).word for reason in batch.fail_reasons.tolist())
