"""Where a key is searched, in which order, and what is found."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspection.message_status.blocks import FIRST_BLOCK, blocks, blocks_around
from inspection.message_status.evidence import outcome_of
from inspection.message_status.key_search import KeySearch
from inspection.message_status.outcome_topics import OutcomeTopic
from inspection.message_status.partitioners import likely_partitions, murmur2
from inspection.message_status.spouts import source_numbers
from inspection.message_status.verdict import SourceMessage
from kafka_clients.log_reader import Place
from spout_sdk.kafka_spout.partitions import owned_numbers
from spout_sdk.records import MadeRecord
from tuple_tree.components import OutcomesManifest
from tuple_tree.outcome_records import OutcomeRecord, OutcomesOf, outcome_stream
from tuple_tree.payloads import encode_tuples, payload_codec

KEY = b"ORDER-4711"


def test_murmur2_is_that_of_kafka() -> None:
    """The numbers of UtilsTest in Kafka's sources."""
    for data, expected in (
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ):
        assert murmur2(data) == expected % 2**32


@pytest.mark.parametrize("from_end", [True, False])
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=4), st.integers(1, 20))
def test_blocks_have_each_offset_once(from_end: bool, sizes: list[tuple[int, int]], first: int) -> None:
    offset_ranges = {("t", number): range(start, start + size) for number, (start, size) in enumerate(sizes)}
    seen: dict[Place, list[range]] = {}
    for block in blocks(offset_ranges, from_end=from_end, first=first):
        for place, offsets in block.items():
            assert len(offsets)
            seen.setdefault(place, []).append(offsets)
    for place, of_place in seen.items():
        in_order = of_place[::-1] if from_end else of_place
        assert [at for offsets in in_order for at in offsets] == [*offset_ranges[place]]
    assert {*seen} == {place for place, offsets in offset_ranges.items() if len(offsets)}


@given(st.integers(0, 50), st.integers(0, 200), st.integers(0, 250), st.integers(1, 20))
def test_blocks_around_an_offset_begin_next_to_it(start: int, size: int, middle: int, first: int) -> None:
    place, offsets = ("t", 0), range(start, start + size)
    found = [block[place] for block in blocks_around({place: offsets}, {place: middle}, first=first)]
    assert sorted(at for each in found for at in each) == [*offsets]
    if middle in offsets:
        assert found[0][0] == middle
        assert middle == start or found[1][-1] == middle - 1


class Logs:
    """Partitions of records by offset, in place of a `BlockReader`.

    Attributes:
        read_of: partition → how many offsets were read.
    """

    def __init__(self, keys: Mapping[Place, Mapping[int, bytes | None]], ends: Mapping[Place, int]) -> None:
        self._keys, self._ends = keys, ends
        self.values: dict[tuple[Place, int], bytes] = {}
        self.read_of: Counter[Place] = Counter()

    def offset_ranges(self, places: Any, since_ms: int | None = None) -> dict[Place, range]:
        return {place: range(since_ms or 0, self._ends[place]) for place in places}

    def read(
        self,
        what: str,
        offset_ranges: Mapping[Place, range],
        take: Callable[[Any], None],
        enough: Callable[[], bool] = lambda: False,
        *,
        around: Mapping[Place, int] | None = None,
    ) -> None:
        for block in blocks(offset_ranges, from_end=True) if around is None else blocks_around(offset_ranges, around):
            for place, offsets in block.items():
                self.read_of[place] += len(offsets)
                for offset, key in self._keys.get(place, {}).items():
                    if offset in offsets:
                        value = self.values.get((place, offset))
                        take(MadeRecord(*place, offset, value, None, key, (1, offset)))
            if enough():
                return


def _places(partitions: int, end: int) -> dict[Place, int]:
    return {("orders", number): end for number in range(partitions)}


def _search(logs: Logs, *, every: bool = False) -> KeySearch:
    return KeySearch(logs, KEY, every=every)  # type: ignore[arg-type]


def test_a_key_is_found_in_the_last_block_of_any_partition_and_else_where_it_is_likely() -> None:
    likely = likely_partitions(KEY, 8)
    others = [number for number in range(8) if number not in likely]
    logs = Logs({("orders", others[0]): {1_000_000 - 5: KEY}}, _places(8, 1_000_000))
    (found,) = _search(logs).messages({"orders": 8}, None)
    assert (found.partition, found.offset, found.key, found.at_ms) == (others[0], 999_995, KEY, 999_995)
    assert set(logs.read_of.values()) == {FIRST_BLOCK}
    logs = Logs({("orders", likely[0]): {7: KEY, 9: KEY}}, _places(8, 1_000_000))
    assert [each.offset for each in _search(logs).messages({"orders": 8}, None)] == [9, 7]
    assert all(logs.read_of["orders", number] == FIRST_BLOCK for number in others)


def test_a_key_is_found_wherever_a_producer_has_written_it_and_everywhere_if_all_are_wanted() -> None:
    for number in range(5):
        logs = Logs({("orders", 0): {4: b"other"}, ("orders", number): {3: KEY}}, _places(5, 50_000))
        (found,) = _search(logs).messages({"orders": 5}, None)
        assert (found.partition, found.offset) == (number, 3)
    logs = Logs({("orders", number): {number: KEY} for number in range(5)}, _places(5, 50_000))
    every = _search(logs, every=True).messages({"orders": 5}, None)
    assert [each.offset for each in every] == [4, 3, 2, 1, 0]
    assert not _search(Logs({}, _places(5, 100))).messages({"orders": 5}, None)


OUTCOMES = OutcomeTopic(OutcomesManifest(topic="outcomes"), OutcomesOf("shop", "orders", is_alone=True), 3)
MESSAGE = SourceMessage("orders", 3, 120_311, KEY, 500_000)
OUTCOME = OutcomeRecord("orders", 3, 120_311, "acked", 1, 10, 20)
LIKELY, OTHER, LAST = ("outcomes", 1), ("outcomes", 0), ("outcomes", 2)


def _outcomes(written: Mapping[tuple[Place, int], tuple[bytes | None, OutcomeRecord]], end: int = 1_000_000) -> Logs:
    """Topics of outcomes with these records by position: the key, and the value."""
    keys: dict[Place, dict[int, bytes | None]] = {}
    codec = payload_codec(outcome_stream("json"))
    for (place, offset), (key, _) in written.items():
        keys.setdefault(place, {})[offset] = key
    logs = Logs(keys, dict.fromkeys((LIKELY, OTHER, LAST), end))
    logs.values = {at: encode_tuples(codec, [outcome]) for at, (_, outcome) in written.items()}
    return logs


def _found(logs: Logs, middle: int = 500_000, *, letter_ms: int = 0) -> OutcomeRecord | None:
    parts = [logs.offset_ranges(places) for places in OUTCOMES.places(KEY)]
    around = dict.fromkeys((LIKELY, OTHER, LAST), middle)
    letters = lambda since_ms: letter_ms >= since_ms  # noqa: E731
    return outcome_of(logs, parts, around, MESSAGE, OUTCOMES, letters)  # type: ignore[arg-type]


def test_a_message_that_retention_has_deleted_is_found_by_its_outcome() -> None:
    written = {5: OUTCOME, 6: OUTCOME._replace(topic="returns"), 7: OUTCOME}
    logs = _outcomes({(LIKELY, offset): (KEY, outcome) for offset, outcome in written.items()})
    logs.values[LIKELY, 7] = b"another program's"
    (found,) = _search(logs).by_outcomes(OUTCOMES, ["orders"], None)
    assert (found.topic, found.partition, found.offset, found.at_ms) == ("orders", 3, 120_311, None)


def test_an_outcome_is_found_near_the_time_of_its_message() -> None:
    assert OUTCOMES.places(KEY) == ([LIKELY], [OTHER, LAST])
    assert OUTCOMES.places(None) == ([OTHER, LIKELY, LAST], [])
    for offset in (500_000 + 4_000, 500_000 - 4_000):
        logs = _outcomes({(LIKELY, offset): (KEY, OUTCOME), (LIKELY, offset - 1): (b"other", OUTCOME)})
        assert _found(logs) == OUTCOME
        assert sum(logs.read_of.values()) <= 2 * 2 * FIRST_BLOCK
    # It was too large for a record with its key, so it may be in any partition.
    assert _found(_outcomes({(OTHER, 500_001): (None, OUTCOME)})) == OUTCOME
    assert _found(_outcomes({(LIKELY, 500_001): (KEY, OUTCOME._replace(offset=7))})) is None


def test_of_several_outcomes_of_a_message_the_last_one_counts() -> None:
    """The offsets of the group were reset, and the message was processed once more."""
    letter = OUTCOME._replace(outcome="dead-letter")
    for first, last in ((letter, OUTCOME), (letter, letter), (OUTCOME, letter)):
        again = last._replace(end=90_000)
        for at in (500_002, 999_000):
            logs = _outcomes({(LIKELY, 500_001): (KEY, first), (LIKELY, at): (KEY, again)})
            assert _found(logs, letter_ms=again.end) == again
    logs = _outcomes({(LIKELY, 500_001): (KEY, letter._replace(end=90_000)), (LIKELY, 999_000): (KEY, OUTCOME)})
    assert _found(logs) == letter._replace(end=90_000)


def test_the_numbers_of_a_source_partition_have_that_of_the_spout() -> None:
    """Whatever the order of its topics, and if it has read another one before."""
    for read in (["a"], ["a", "b"], ["b", "a"], ["a", "b", "c"]):
        numbers = owned_numbers(dict.fromkeys(read, 4), 0, 1)
        for at, number in numbers.items():
            assert number in source_numbers(["a", "b", "c"], at.partition)
    assert source_numbers(["a"], 7) == [7]
