"""Every case of the acking rules through a real broker and a real worker."""

import random
from collections.abc import Iterator
from functools import reduce
from operator import xor

import pytest

from tests.acking_cases import CASES, LIFETIME_TICKS, Case
from tests.kafka.ack_log import AckLog
from tests.waiting import eventually


@pytest.fixture(scope="module")
def log(bootstrap_servers: str) -> Iterator[AckLog]:
    with AckLog(bootstrap_servers) as log, log.worker():
        yield log


def play(log: AckLog, case: Case, root: int) -> None:
    ids = {edge: random.getrandbits(64) for edge in "abc"}
    for message in case.messages():
        val = reduce(xor, (ids[edge] for edge in message.edges), 0)
        match message.kind:
            case "T":
                log.flush()
                log.wait_ticks(1, root % 2)
            case "I":
                log.say(root, init=val)
            case "A":
                log.say(root, ack=val)
            case "F":
                log.say(root, fail="no")
            case _:
                log.say(root, reset=True)
    log.flush()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
def test_case(log: AckLog, case: Case) -> None:
    root = random.getrandbits(64)
    play(log, case, root)
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
def test_extreme_roots(log: AckLog, root: int) -> None:
    log.say(root, init=7)
    log.say(root, ack=7)
    log.flush()
    assert log.await_notices([root])[root] == ["ack"]


def test_walk_through_with_four_bit_ids(bootstrap_servers: str) -> None:
    first, second, joined = 0b1010, 0b1011, 0b1100
    with AckLog(bootstrap_servers) as log, log.worker() as worker:
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
