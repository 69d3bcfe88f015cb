"""Workers killed with SIGKILL at random moments under load: each tree has the outcome that it has without kills."""

import random
import threading
from functools import partial

import pytest

from tests.kafka.ack_log import AckLog
from tests.waiting import eventually

TREES = 6_000
KILLS = 12
SHARE = 3 * TREES // (KILLS + 1)
"""Messages between two kills."""
LAG = 1_000
"""Places by which a message may be put off: less than a share, so that no tree waits for more than one kill or two."""


def messages(rng: random.Random, failing: set[int], unacked: set[int], roots: list[int]) -> list[tuple[int, str, int]]:
    """The entries of all trees in random order: each is delayed by a random number of places."""
    placed: list[tuple[float, tuple[int, str, int]]] = []
    for number, root in enumerate(roots):
        edge, child = rng.getrandbits(64), rng.getrandbits(64)
        entries = [(root, "init", edge)]
        if root in failing:
            entries.append((root, "fail", 0))
        elif root not in unacked:
            entries += [(root, "ack", edge ^ child), (root, "ack", child)]
        placed += [(3 * number + rng.uniform(0, LAG), entry) for entry in entries]
    return [entry for _, entry in sorted(placed)]


def more_notices(log: AckLog, than: int) -> bool:
    return len(log.read_notices()) > than


@pytest.mark.exhaustive
def test_kills_change_no_outcome(bootstrap_servers: str) -> None:
    seed = random.SystemRandom().getrandbits(32)
    rng = random.Random(seed)
    roots = [rng.getrandbits(64) for _ in range(TREES)]
    failing, unacked = set(roots[::50]), set(roots[1::50])
    with AckLog(bootstrap_servers, partitions=4, tick_ms=500, timeout_ms=45_000) as log:
        share = threading.Semaphore(0)  # the kills let the writer go on, so that all of them meet a load

        def write() -> None:
            for count, (root, kind, val) in enumerate(messages(rng, failing, unacked, roots)):
                if count % SHARE == 0:
                    share.acquire()
                match kind:
                    case "init":
                        log.send(root, init=val)
                    case "ack":
                        log.send(root, ack=val)
                    case _:
                        log.send(root, fail="no")
            log.flush()

        # A daemon, since it would wait for ever for the next kill if this thread fails.
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        kills = 0
        while kills < KILLS:
            before = len(log.read_notices())
            with log.worker_process() as worker:
                share.release()
                # Killed at any moment from its first notices on: between a fold, its notices and its commit.
                eventually(partial(more_notices, log, before), "new notices")
                threading.Event().wait(random.uniform(0, 0.3))
                worker.kill()
                kills += 1
        share.release(2)
        with log.worker_process():
            outcomes = log.await_notices(roots, deadline_s=150)
        writer.join()
    expected = {root: "failed" if root in failing else "timeout" if root in unacked else "ack" for root in roots}
    assert {root: outcomes[root][0] for root in roots} == expected, f"seed {seed}"
