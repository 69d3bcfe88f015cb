"""The checker of the chaos suite finds false acks, losses and repeats."""

from pathlib import Path

import numpy as np
import pytest

from spout_sdk import Topology
from tests.chaos.arena import PARTS, Arena
from tests.chaos.checks import findings
from tests.chaos.topologies import DIRECTORY, NAME, at_most_once, own_spout
from tests.kafka.sdk_rig import Cluster


def found(topology: Topology, arena: Arena) -> dict[str, int]:
    return findings(topology, arena, Cluster("127.0.0.1:1", topology.manifest))


def test_false_acks_losses_and_repeats_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "chaos")
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    arena = Arena(tmp_path / "arena", "w+")
    for number in range(4):
        arena.emit(number, 100.0 + number)
    for number in (0, 1):
        for part in range(PARTS):
            arena.effect(number, part)
        arena.ack(number, 200.0 - number)
    # Of message 2 an effect is missing at its ack, and comes later; message 3 has all effects and no ack.
    arena.effect(2, 0)
    arena.ack(2, 300.0)
    for part in range(PARTS):
        arena.effect(2, part)
        arena.effect(3, part)
    assert found(own_spout(), arena) == {"false_acks": 1, "lost": 1, "repeats": 0}
    assert found(at_most_once(), arena) == {"false_acks": 0, "lost": 0, "repeats": 1}
    assert [arena.first_ack_of_newer(since) for since in (100.5, 102.0, 102.5)] == [199.0, 300.0, None]
    other = Arena(tmp_path / "arena")
    assert np.array_equal(other.acked_at[:4], [200.0, 199.0, 300.0, 0.0]), "other processes can read it"
