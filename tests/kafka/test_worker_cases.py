"""Every case of the acking rules through a real broker and a real worker."""

import random
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from operator import xor

import pytest

from tests.acking_cases import CASES, LIFETIME_TICKS, Case
from tests.kafka.ack_log import AckLog
from tests.waiting import eventually


@pytest.fixture(scope="module")
def log(bootstrap_servers: str) -> Iterator[AckLog]:
    with AckLog(bootstrap_servers) as log, log.worker():
        yield log


@pytest.fixture(scope="module")
def unhurried(bootstrap_servers: str) -> Iterator[AckLog]:
    """A log whose trees do not expire, however slow the machine is."""
    with AckLog(bootstrap_servers, timeout_ms=120_000) as log, log.worker():
        yield log


def play(log: AckLog, case: Case) -> int | None:
    """Says a case's messages about a fresh root.

    Returns:
        The root; nothing if more ticks began between two messages than the case has there: the broker's own times of
        what was said show that another case was played, whatever came of it.
    """
    root = random.getrandbits(64)
    ids = {edge: random.getrandbits(64) for edge in "abc"}
    partition, tick_ms = root % log.manifest.ack_partitions, log.manifest.tick_ms
    ticks: list[int] = []
    meant: list[int] = []
    since = 0

    def appended(ms: int) -> None:
        ticks.append(ms // tick_ms)

    for message in case.messages():
        if message.kind == "T":
            since += 1
            log.flush()
            log.wait_for_tick(ticks[-1] + since, partition)
            continue
        meant.append(since)
        since = 0
        val = reduce(xor, (ids[edge] for edge in message.edges), 0)
        match message.kind:
            case "I":
                log.say(root, init=val, on_append=appended)
            case "A":
                log.say(root, ack=val, on_append=appended)
            case "F":
                log.say(root, fail="no", on_append=appended)
            case _:
                log.say(root, reset=True, on_append=appended)
    log.flush()
    return root if [after - before for before, after in pairwise(ticks)] == meant[1:] else None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
def test_case(log: AckLog, case: Case) -> None:
    root = eventually(lambda: play(log, case), "the case played without a pause")
    assert root is not None
    # What must not come cannot be awaited: a tree that starts after everything of this one would have expired is told
    # after it, since both are in one partition and their spout is one.
    if not case.outcomes:
        log.wait_ticks(LIFETIME_TICKS + 1, root % 2)
    later = (root + 2) % 2**64
    log.say(later, init=0)
    log.flush()
    assert log.await_notices([later])[later] == ["ack"]
    assert log.read_notices().get(root, []) == list(case.outcomes)


@pytest.mark.parametrize("root", [0, 2**63, 2**64 - 1])
def test_extreme_roots(unhurried: AckLog, root: int) -> None:
    unhurried.say(root, init=7)
    unhurried.say(root, ack=7)
    unhurried.flush()
    assert unhurried.await_notices([root])[root] == ["ack"]


def test_walk_through_with_four_bit_ids(bootstrap_servers: str) -> None:
    first, second, joined = 0b1010, 0b1011, 0b1100
    with AckLog(bootstrap_servers, timeout_ms=120_000) as log, log.worker() as worker:
        for root in (first, second):
            log.say(root, init=root)
            log.say(root, ack=root ^ joined)
        log.flush()
        eventually(lambda: worker.stats.acks == 2, "both acks of the first bolt")
        assert not log.read_notices()
        for root in (first, second):
            log.say(root, ack=joined)
        log.flush()
        assert log.await_notices([first, second]) == {first: ["ack"], second: ["ack"]}
