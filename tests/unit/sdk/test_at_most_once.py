"""A bolt's loop with `at_most_once`: offsets are committed before, and set back; what is lost is reported."""

import re
from collections import Counter
from functools import partial
from typing import Any

import pytest

from kafka_clients.repeated_lines import EACH
from spout_sdk.errors import BrokerError, ComponentError
from tests.unit.sdk.loop_rig import Emits, Regrouping, RevokedConsumer, Rig, Unanswered, Works, WorksInBatches, rows_of
from tuple_tree.manifest import Guarantee

EITHER = pytest.mark.parametrize("bolt", [Works, WorksInBatches])


def raises(error: Exception, *_: Any) -> float:
    raise error


@EITHER
@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_task_that_is_revoked_during_a_read_continues_at_the_committed_offset(
    bolt: Any, guarantee: Guarantee
) -> None:
    rig = Rig([1, 2] + [0] * 20, bolt=bolt, guarantee=guarantee, rows=40, consumer=Regrouping)
    rig.seconds = lambda offset: 0.1 if offset == 1 else 0.0
    rig.run()
    # With at_most_once it is committed, so what was begun is executed before the task is revoked.
    assert Counter(rig.executed) == {0: 40, 1: 40, 2: 40}, "the rest of the record that was begun is executed once"
    assert rig.consumer.commits[-1] == 3
    assert set(rig.consumer.paused) <= set(rig.consumer.resumed)


@EITHER
def test_a_revoked_task_executes_what_is_committed_for_a_limited_time(
    caplog: pytest.LogCaptureFixture, bolt: Any
) -> None:
    rig = Rig([1, 2] + [0] * 20, bolt=bolt, rows=400, consumer=Regrouping)
    rig.seconds = lambda offset: 1.0 if offset == 1 else 0.0
    rig.run()
    counts = Counter(rig.executed)
    assert counts[0] == counts[2] == 400
    assert 5 < counts[1] < 400
    assert f"b: up to {400 - counts[1]} tuples of records that were begun, and 0 records" in caplog.text
    assert any(hasattr(record, *EACH) for record in caplog.records)


def test_records_whose_offsets_cannot_be_set_back_are_reported_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig([1, 2] + [0] * 20, rows=20)

    def stop() -> bool:
        rig.consumer.refused = len(rig.executed) == 40
        return len(rig.executed) == 40

    rig.stopping = stop
    rig.run()
    assert "b: up to 1 records of tasks [0] are lost" in caplog.text
    assert hasattr(caplog.records[-1], *EACH)


def test_a_commit_that_is_applied_though_it_has_failed_loses_no_record() -> None:
    """With `at_most_once` to begin again at the committed offset would skip them."""
    rig = Rig([2] * 9, consumer=Unanswered)
    rig.run()
    assert rig.executed == list(range(len(rig.executed)))
    assert len(rig.executed) > 10


def test_a_bolt_that_ends_by_an_error_sets_back_what_is_not_executed_and_sends_what_is_emitted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig([3, 5], bolt=Emits)
    rig.seconds = lambda offset: raises(ValueError("a bad day")) if offset == 5 else 0.0
    with pytest.raises(ComponentError, match="a bad day"):
        rig.run()
    assert rig.executed == [0, 1, 2, 3, 4, 5]
    assert rig.consumer.commits[-2:] == [7, 6]
    assert sum(rows_of(sent) for sent in rig.sink.to(".tuples.next")) == 5
    assert "are lost" not in caplog.text


def test_committed_tuples_of_a_batch_that_ends_the_process_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig([1, 2], bolt=WorksInBatches, rows=300)
    rig.seconds = lambda _: raises(ValueError("a bad day")) if len(rig.executed) == 700 else 0.0
    with pytest.raises(ComponentError, match="a bad day"):
        rig.run()
    left = re.search(r"b: up to (\d+) tuples of records that were begun, and 0 records", caplog.text)
    assert left is not None
    assert 900 - len(rig.executed) <= int(left[1]) <= 600


def test_the_error_that_ends_a_process_is_reported_whatever_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig([7], bolt=Emits)
    for method in ("send", "flush"):
        monkeypatch.setattr(rig.loop._sink, method, partial(raises, BrokerError("another")))
    rig.seconds = lambda offset: raises(ValueError("the first")) if offset == 3 else 0.0
    with pytest.raises(ComponentError, match="the first"):
        rig.run()
    assert rig.consumer.commits == [1, 3, 7, 4], "the others are read again"


def test_what_a_lost_task_has_committed_and_not_executed_is_reported_and_what_it_has_emitted_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig([1, 4] + [0] * 9, bolt=Emits, consumer=RevokedConsumer)
    # The group is polled between two tuples.
    rig.seconds = lambda offset: 1.1 if offset == 1 else 0.0
    with pytest.raises(BrokerError, match="cannot continue"):
        rig.run()
    assert rig.executed == [0, 1]
    assert "b: up to 0 tuples of records that were begun, and 1 records from offsets {0: 2} on" in caplog.text
    assert sum(rows_of(sent) for sent in rig.sink.to(".tuples.next")) == 1


def test_at_most_once_commits_before_it_executes() -> None:
    rig = Rig([3, 500, 1, 7])
    rig.run()
    assert rig.executed == list(range(511))
    assert all(committed > offset for committed, offset in zip(rig.committed_at, rig.executed, strict=True))
    assert rig.consumer.commits[-1] == 511


def test_at_most_once_executes_only_committed_inputs_and_ends_after_five_failed_commits() -> None:
    rig = Rig([1] * 9)
    rig.consumer.refused = 4
    rig.run()
    assert rig.executed == [0, 1, 2, 3, 4]
    rig = Rig([1] * 9)
    rig.consumer.refused = 5
    with pytest.raises(BrokerError, match="b could not commit 5 times in a row: the offsets of tasks"):
        rig.run()
    assert not rig.executed
