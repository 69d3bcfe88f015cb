"""After a kill at any moment and a take-over at any commit, every tree has the same outcome as without kills."""

import random
from functools import partial

import pytest

from acker_worker.errors import UnsupportedVersionError
from acker_worker.fold import LogRecord, PartitionFold
from acker_worker.progress import METADATA_LIMIT, Progress
from tests.ack_log import SETTINGS, START_MS, TICK_MS, Log, Outcome, new_fold, outcomes
from tests.seeds import each_seed
from tests.unit.acker_worker.trees import Trees

FAR_MS = 100 * TICK_MS


def killed(trees: Trees, rng: random.Random) -> tuple[dict[int, str], int]:
    """Folds the log with kills at random moments; returns the first outcome of each root, and the number of kills."""
    log, kills = trees.log, 0
    found: dict[int, str] = {}
    committed: Progress | None = None
    fold, is_done = new_fold(), False

    def take(notified: list[Outcome]) -> None:
        for spout, root, outcome in notified:
            assert trees.trees[root].spout == spout
            assert outcome != "ack" or trees.trees[root].is_complete, f"{root:x} was acked with open tuples"
            found.setdefault(root, outcome)

    while not is_done:
        records = log.records[fold.position : fold.position + rng.randint(1, 25)]
        notified = outcomes(fold.apply(records))
        next_ms = log.records[fold.position].append_ms if fold.position < len(log.records) else log.now_ms + FAR_MS
        if rng.random() < 0.3 and not fold.rebuilding:
            # The partition is read to its end as far as the broker has it: the idle clock may move up to what is next.
            notified += outcomes(fold.advance(rng.randint(fold.clock_ms, max(fold.clock_ms, next_ms))))
        # Killed with notices in its buffers, some of them sent, in order; or before or after a commit.
        is_killed = rng.random() < 0.1
        take(notified[: rng.randint(0, len(notified))] if is_killed else notified)
        if not is_killed and rng.random() < 0.4:
            committed = fold.progress
        if is_killed or rng.random() < 0.15:
            fold = PartitionFold(0, 1, SETTINGS, committed)
            kills += 1
        else:
            is_done = fold.position >= len(log.records)
    take(outcomes(fold.advance(log.now_ms + FAR_MS)))
    assert len(fold.ledger) == 0
    return found, kills


def random_trees(rng: random.Random, *, faults: bool = True) -> Trees:
    trees = Trees(rng.getrandbits(32), faults=faults)
    trees.run(rng.randint(100, 500))
    return trees


def check_kills(seed: int, *, faults: bool) -> None:
    rng, kills = random.Random(seed), 0
    for _ in range(12):
        trees = random_trees(rng, faults=faults)
        trees.take(outcomes(trees.fold.advance(trees.log.now_ms + FAR_MS)))
        assert all(tree.outcome for tree in trees.trees.values())
        after, killed_times = killed(trees, rng)
        for root, tree in trees.trees.items():
            if after.get(root) != tree.outcome:
                # An ack or fail that expired before its init came, and its repeat: an owner that reads the repeat alone
                # takes it for new. The outcome is then that, which is true, or none, and the spout's own time-out ends
                # it.
                assert (tree.is_repeated, tree.outcome) == (True, "timeout")
                assert after.get(root) in ("ack", "failed", None)
        kills += killed_times
    assert kills > 12


@pytest.mark.parametrize("faults", [False, True], ids=["orderly", "zombies"])
def test_kills_change_no_outcome(faults: bool) -> None:
    each_seed(partial(check_kills, faults=faults))


def check_clock(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        trees, behind = random_trees(rng), 0
        for at, record in enumerate(trees.log.records):
            if rng.random() < 0.05:
                behind = rng.choice([0, 3 * TICK_MS, 10 * TICK_MS])
            trees.log.records[at] = LogRecord(record.offset, record.append_ms - behind, record.value)
        after, _ = killed(trees, rng)
        assert all(root in after or tree.is_repeated for root, tree in trees.trees.items()), "except as above"


def test_a_broker_whose_clock_steps_back_leaves_no_tree_without_an_outcome() -> None:
    each_seed(check_clock)


def test_outcomes_of_committed_records_are_not_sent_again() -> None:
    log, fold = Log(), new_fold()
    log.send(inits=[(1, 5), (2, 6), (3, 7)])
    log.send(acks=[(1, 5)], fails=[2])
    log.send(inits=[(4, 8)])
    fold.apply(log.records)
    progress = fold.progress
    assert progress.offset == 3

    again = PartitionFold(0, 1, SETTINGS, Progress(progress.offset, 0, progress.clock_ms))
    assert outcomes(again.apply(log.records)) == []
    assert outcomes(again.apply([log.send(acks=[(4, 8)])])) == [(again.ledger.spout(1), 4, "ack")]


def test_a_new_owner_sends_expiries_again() -> None:
    """The idle clock was ahead when a broker with a slow clock appended an init: its birth is the append time."""
    log, fold = Log(), new_fold()
    fold.apply([log.send(inits=[(1, 1)]), log.send(acks=[(1, 1)])])
    early = log.now_ms
    log.tick(30)
    fold.advance(log.now_ms)
    late_clock, log.now_ms = log.now_ms, early
    fold.apply([log.send(inits=[(2, 2)])])
    log.now_ms = late_clock + 10
    fold.apply([log.send(writer="c/0")])
    progress = fold.progress
    again = PartitionFold(0, 1, SETTINGS, Progress(progress.offset, 0, progress.clock_ms))
    notified = outcomes(again.apply([*log.records, log.send(acks=[(2, 2)])]))
    assert [(root, outcome) for _, root, outcome in notified] == [(2, "timeout")]
    assert [outcome for _, _, outcome in outcomes(fold.apply(log.records[-1:]))] == ["ack"]


def test_a_rebuild_begins_a_tick_before_the_oldest_open_tree() -> None:
    log, fold = Log(), new_fold()
    for root in range(1, 9):
        log.send(inits=[(root, root)])
        if root != 5:
            log.send(acks=[(root, root)])
        log.tick()
        fold.apply(log.records[fold.position :])
        if root > 5:
            fold.apply([log.send(writer="r/0", resets=[5])])
    oldest = next(r.offset for r in log.records if r.append_ms == START_MS + 3 * TICK_MS)
    assert fold.progress.rebuild_from == oldest
    fold.apply([log.send(acks=[(5, 5)])])
    assert fold.progress.rebuild_from > oldest


def test_an_offset_without_our_metadata_is_where_the_fold_begins() -> None:
    for metadata in (None, "of another tool", '{"v":1,"rebuild_from":Infinity,"clock_ms":99}', "[" * 100_000):
        assert Progress.of(17, metadata) == Progress(17, 17, 0)
    assert Progress.of(17, '{"v":1,"rebuild_from":12,"clock_ms":99}') == Progress(17, 12, 99)
    with pytest.raises(UnsupportedVersionError, match=r"offset 17 has metadata of version 2, .* reads version 1"):
        Progress.of(17, '{"v":2,"rebuild_from":12}')
    progress = Progress(2**62, 2**61, START_MS, {"b/0": (b"12345678", b"abcdefgh"), "c/1": (b"87654321",)})
    assert Progress.of(progress.offset, progress.metadata()) == progress


def test_a_batch_of_another_version_stops_the_fold_and_is_no_dead_letter() -> None:
    log, fold = Log(), new_fold()
    log.send(inits=[(1, 5)])
    log.append(b"\xc3\x01another-" + bytes(50))
    with pytest.raises(UnsupportedVersionError, match=r"offset 1 of ack partition 0 .* upgrade the reader"):
        fold.apply(log.records)


def test_metadata_stays_within_kafkas_limit_and_drops_the_earliest_openings() -> None:
    opened = {f"component-{n}/0": (random.Random(n).randbytes(8),) * 3 for n in range(500)}
    progress = Progress(5, 5, START_MS, opened)
    metadata = progress.metadata()
    assert len(metadata) <= METADATA_LIMIT
    kept = Progress.of(5, metadata).opened
    assert len(kept) > 30
    assert list(kept) == list(opened)[-len(kept) :]


def test_progress_is_limited_to_the_retained_log() -> None:
    progress = Progress(100, 60, START_MS, {"b/0": (b"12345678",)})
    assert progress.within(0, 100) == (progress, None)
    assert progress.within(60, 500) == (progress, None)
    for low, offset in ((80, 100), (200, 200)):
        usable, loss = progress.within(low, 500)
        assert usable == Progress(offset, low, START_MS, progress.opened)
        assert "Retention is too short" in str(loss)
    usable, loss = progress.within(0, 99)
    assert usable is None
    assert "created again" in str(loss)


def test_a_recreated_log_ends_the_rebuild() -> None:
    fold = PartitionFold(0, 1, SETTINGS, Progress(1_000, 900, START_MS))
    assert outcomes(fold.advance(START_MS)) == []
    assert not fold.rebuilding
    log = Log(START_MS + 1)
    records = [LogRecord(5, log.now_ms, log.send(inits=[(1, 0)]).value)]
    assert [outcome for _, _, outcome in outcomes(fold.apply(records))] == ["ack"]
