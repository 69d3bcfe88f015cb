"""A lag at rest that consists of markers of transactions is none; each range of offsets is read once."""

from collections.abc import Mapping

from inspection.topic_status import PartitionStatus, TopicStatus
from inspection.transaction_markers import TransactionMarkers
from kafka_clients.log_reader import Place


class Log:
    """The records of partitions by their offsets; the others are markers. `asked` has the ranges that were read."""

    def __init__(self, **records: set[int]) -> None:
        self.records = records
        self.asked: list[tuple[str, range]] = []
        self.is_down = False
        self.markers = TransactionMarkers(self._read)

    def _read(self, offset_ranges: Mapping[Place, range]) -> Mapping[Place, bool]:
        if offset_ranges:
            self.asked += [(topic, offsets) for (topic, _), offsets in offset_ranges.items()]
        found = {place: bool(self.records[place[0]] & {*offsets}) for place, offsets in offset_ranges.items()}
        return {} if self.is_down else found

    def lag(self, committed: int, end: int, *, at_once: bool = False, group: str = "g") -> int | None:
        partition = PartitionStatus(0, 0, end, committed, end - committed)
        (topic,) = self.markers.without([TopicStatus("in", 1, group, (partition,))], at_once=at_once)
        return topic.lag


def test_markers_at_the_end_of_a_topic_are_no_lag_as_soon_as_it_is_at_rest() -> None:
    log = Log(**{"in": {0, 1, 2}})
    assert log.lag(3, 5) == 2, "it may be at work"
    assert [log.lag(3, 5) for _ in range(3)] == [0, 0, 0]
    assert log.asked == [("in", range(3, 5))]
    # A transaction begins: what is known of the first offsets stays known.
    log.records["in"] |= {5}
    assert log.lag(3, 7) == 2
    assert [log.lag(3, 7) for _ in range(2)] == [2, 2]
    assert log.lag(7, 7) == 0


def test_a_command_that_runs_once_reads_at_once() -> None:
    log = Log(**{"in": {0, 3}})
    assert [log.lag(committed, 5, at_once=True) for committed in (0, 3, 4, 4)] == [5, 2, 0, 0]
    assert [offsets for _, offsets in log.asked] == [range(5), range(3, 5), range(4, 5)]


def test_records_are_not_read_again_before_the_group_moves_on() -> None:
    log = Log(**{"in": {3}})
    assert [log.lag(3, 5) for _ in range(4)] == [2, 2, 2, 2]
    assert [log.lag(3, 6) for _ in range(4)] == [3, 3, 3, 3]
    assert len(log.asked) == 1


def test_a_partition_without_an_answer_has_its_lag_and_is_read_again() -> None:
    log = Log(**{"in": set()})
    log.is_down = True
    assert [log.lag(3, 5, at_once=True) for _ in range(2)] == [2, 2]
    log.is_down = False
    assert log.lag(3, 5) == 0
    # The topic was deleted, and created again.
    log.records["in"] = {3}
    assert log.lag(3, 4, at_once=True) == 1


def test_two_groups_may_read_a_topic() -> None:
    log = Log(**{"in": {2}})
    partitions = {group: (PartitionStatus(0, 0, 4, at, 4 - at),) for group, at in (("a", 0), ("b", 3))}
    topics = [TopicStatus("in", 1, group, of_group) for group, of_group in partitions.items()]
    assert [topic.lag for topic in log.markers.without(topics, at_once=True)] == [4, 0]
