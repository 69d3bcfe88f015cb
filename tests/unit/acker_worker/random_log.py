"""Random logs of one partition, as real spouts and bolts would write them, and with faults if asked for."""

import random
from dataclasses import dataclass, field

from tests.unit.acker_worker.folding import TICK_MS, Log
from tuple_tree.messages import SpoutAddress, decode_ack_batch

SPOUTS = (SpoutAddress("t.notices.s", 0, 2 * TICK_MS), SpoutAddress("t.notices.s", 1, 5 * TICK_MS))
WRITERS = ("b/0", "b/1", "c/0")


@dataclass
class Scenario:
    """A log, and the expected outcomes of its trees.

    Attributes:
        owners: the spout task of each root.
        acked: roots whose tuples were all acked, in the log or in a batch that was dropped.
        repeated: roots in batches that the log holds twice.
    """

    log: Log
    owners: dict[int, SpoutAddress] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)


def random_scenario(seed: int, *, faults: bool) -> Scenario:
    """Some hundred records: trees of random size, out of order, failing, slow, forgotten; repeats of whole batches.

    Args:
        seed: repeats the run.
        faults: also restarts of writers, with late batches of their zombies and inputs processed twice.
    """
    rng = random.Random(seed)
    scenario = Scenario(Log())
    log = scenario.log
    sessions = dict.fromkeys(WRITERS, bytes(16))
    zombies: list[tuple[str, bytes]] = []
    open_acks: list[tuple[int, int]] = []
    left: dict[int, set[int]] = {}
    late_inits: list[tuple[int, int, SpoutAddress]] = []

    def new_tree() -> None:
        root, spout = rng.getrandbits(64), rng.choice(SPOUTS)
        edges = [rng.getrandbits(64) for _ in range(rng.randint(1, 4))]
        val = 0
        for edge in edges:
            val ^= edge
        scenario.owners[root] = spout
        left[root] = set(edges)
        open_acks.extend((root, edge) for edge in edges)
        late_inits.append((root, val, spout))

    def take_acks(count: int) -> list[tuple[int, int]]:
        rng.shuffle(open_acks)
        return delivered([open_acks.pop() for _ in range(min(count, len(open_acks)))])

    def delivered(acks: list[tuple[int, int]]) -> list[tuple[int, int]]:
        for root, edge in acks:
            left[root].discard(edge)
            if not left[root]:
                scenario.acked.add(root)
        return acks

    for writer, session in sessions.items():
        log.send(writer=writer, session=session, opens=True)
    for _ in range(rng.randint(60, 250)):
        for _ in range(rng.randint(0, 3)):
            new_tree()
        writer = rng.choice(WRITERS)
        act = rng.random()
        if act < 0.35 and late_inits:
            spout = rng.choice(SPOUTS)
            mine = [(root, val) for root, val, owner in late_inits if owner is spout]
            late_inits[:] = [init for init in late_inits if init[2] is not spout]
            log.send(writer=f"s/{spout.task}", inits=mine, spout=spout)
        elif act < 0.75:
            log.send(writer=writer, session=sessions[writer], acks=take_acks(rng.randint(1, 8)))
        elif act < 0.80 and left:
            log.send(writer=writer, session=sessions[writer], fails=[rng.choice(list(left))])
        elif act < 0.85 and left:
            log.send(writer=writer, session=sessions[writer], resets=[rng.choice(list(left))])
        elif act < 0.92 and log.records:
            value = rng.choice(log.records[-10:]).value
            log.append_bytes(value)
            batch = decode_ack_batch(value)
            for roots in (batch.init_roots, batch.ack_roots, batch.fail_roots, batch.reset_roots):
                scenario.repeated.update(roots.tolist())
        elif faults and act < 0.95:
            zombies.append((writer, sessions[writer]))
            sessions[writer] = rng.randbytes(16)
            log.send(writer=writer, session=sessions[writer], opens=True)
            log.send(writer=writer, session=sessions[writer], acks=delivered(open_acks[:2]))
        elif faults and zombies:
            zombie, session = rng.choice(zombies)
            log.send(writer=zombie, session=session, acks=take_acks(2))
        if late_inits and rng.random() < 0.5:
            spout = late_inits[0][2]
            mine = [(root, val) for root, val, owner in late_inits if owner is spout]
            late_inits[:] = [init for init in late_inits if init[2] is not spout]
            log.send(writer=f"s/{spout.task}", inits=mine, spout=spout)
        log.now_ms += rng.choice([0, 1, 10, TICK_MS // 3, TICK_MS, 2 * TICK_MS])
    for spout in SPOUTS:
        log.send(writer=f"s/{spout.task}", inits=[(r, v) for r, v, owner in late_inits if owner is spout], spout=spout)
    return scenario
