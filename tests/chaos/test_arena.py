"""The checker of the chaos suite finds false acks, losses and repeats."""

from pathlib import Path

import numpy as np
import pytest

from spout_sdk import Topology
from tests.chaos.arena import MESSAGES, PARTS, Arena
from tests.chaos.checks import Deliveries, Parts, chain_repeats, disagreements, findings
from tests.chaos.components import DIRECTORY, NAME
from tests.chaos.targets import misnumbered
from tests.chaos.topologies import at_most_once, own_spout
from tests.kafka.sdk_rig import Cluster


def found(topology: Topology, arena: Arena, *excused: int) -> dict[str, int]:
    excuses = np.zeros(MESSAGES, bool)
    excuses[list(excused)] = True
    return findings(topology, arena, Cluster("127.0.0.1:1", topology.manifest), excuses)


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
    arena.emit(4, 104.0)
    assert found(at_most_once(), arena) == {"false_acks": 0, "lost": 1, "repeats": 1}
    assert found(at_most_once(), arena, 4)["lost"] == 0, "a crash may lose messages"
    assert [arena.first_ack_of_newer(since) for since in (100.5, 102.0, 102.5)] == [199.0, 300.0, None]
    other = Arena(tmp_path / "arena")
    assert np.array_equal(other.acked_at[:4], [200.0, 199.0, 300.0, 0.0]), "other processes can read it"


def test_a_crash_ends_when_newer_messages_of_all_partitions_and_tasks_are_executed(tmp_path: Path) -> None:
    arena = Arena(tmp_path / "arena", "w+")
    for number in range(40):
        arena.emit(number, 100.0 + number)
    assert arena.complete_since(100.0) == 0
    even = range(0, 40, 2)
    for number in even:
        for part in range(PARTS):
            arena.effect(number, part)
    assert arena.complete_since(100.0) == 1, "the other partition is stalled, or a task that has every second message"
    for number in set(range(40)) - {*even, 5, 33}:
        for part in range(PARTS):
            arena.effect(number, part)
    arena.effect(5, 0)
    assert arena.complete_since(100.0) == 33 - 6, "a message that was lost before does not prevent it"
    assert [arena.complete_since(since) for since in (120.5, 133.5, 139.5)] == [33 - 21, 39 - 33, 0]


def test_a_source_with_other_records_than_were_written_is_an_error() -> None:
    assert misnumbered("source", {0: 3, 1: 2}, messages=5) is None
    for ends in ({0: 3, 1: 3}, {0: 3, 1: 1}, {0: 4, 1: 1}):
        assert "wrong numbers" in str(misnumbered("source", ends, messages=5))


def test_results_of_a_chain_may_be_there_again_after_each_fail(tmp_path: Path) -> None:
    arena = Arena(tmp_path / "arena", "w+")
    arena.fail(1)
    assert chain_repeats(Parts({(0, 0): 1, (1, 0): 2, (1, 1): 1}), arena.fails) == 0
    assert chain_repeats(Parts({(0, 0): 2, (1, 0): 3, (1, 1): 4}), arena.fails) == 1 + 1 + 2


SPLIT = Deliveries({(1, 7, -1): 1, (2, 8, -1): 1})
"""The messages 7 and 8, of the trees 1 and 2."""
OF_7 = {(1, 7, part): 1 for part in range(PARTS)}
OF_8 = {(2, 8, part): 1 for part in range(PARTS)}


@pytest.mark.parametrize(
    ("outputs", "wrong", "wrong_if_it_may_fail"),
    [
        ({**OF_7, **OF_8}, 0, 0),
        (OF_7, PARTS, 0),  # an input without outputs has failed, or is lost
        ({**OF_7, (2, 8, 0): 1}, PARTS - 1, PARTS - 1),  # half of an input
        ({**OF_7, **OF_8, (2, 8, 0): 2}, 1, 1),
        ({**OF_7, **dict.fromkeys(OF_8, 2)}, PARTS, PARTS),  # all outputs twice
        ({**OF_7, **OF_8, (3, 8, 0): 1}, 1, 1),  # without an input
    ],
)
def test_outputs_are_compared_with_the_inputs_of_the_same_tree(
    outputs: dict[tuple[int, int, int], int], wrong: int, wrong_if_it_may_fail: int
) -> None:
    for may_fail, expected in ((False, wrong), (True, wrong_if_it_may_fail)):
        assert disagreements(SPLIT, Deliveries(outputs), splits=True, may_fail=may_fail) == expected
