"""Each tuple of a message changes the state once, whatever fails; and each of the three rules is needed for that."""

import os
from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import Any

import numpy as np
import pytest

from spout_sdk.state import applied as module
from spout_sdk.state.applied import APPLIED_PREFIX, DONE_PREFIX, Applied
from spout_sdk.state.known_done import KnownDone
from tests.unit.sdk.state.histories import History
from tuple_tree.ids import IdColumn

_HISTORIES = 500
_EXHAUSTIVE = 40_000
_UNTIL_FOUND = 200


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are made anew now and then, and records have few identities."""
    monkeypatch.setattr(module, "_LEAST_ROOM", 1)
    monkeypatch.setattr(module, "MOST_OF_RECORD", 3)


def _run(seed: int, kind: type[Applied] = Applied) -> None:
    # In every second history columns are checked by numpy, in the others one by one.
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(module, "_FEW", 24 if seed % 2 else 0)
        try:
            History(seed, kind).run()
        except BaseException as error:
            error.add_note(f"seed {seed}: ACKER_TEST_SEED={seed} repeats it")
            raise


def _each(histories: int) -> None:
    if repeated := os.environ.get("ACKER_TEST_SEED"):
        _run(int(repeated))
        return
    first = SystemRandom().getrandbits(40)
    for seed in range(first, first + histories):
        _run(seed)


def test_each_tuple_changes_the_state_once() -> None:
    _each(_HISTORIES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(2))
def test_each_tuple_changes_the_state_once_in_many_histories(part: int) -> None:
    _each(_EXHAUSTIVE // 2)


def _changes_twice(seed: int, kind: type[Applied]) -> bool:
    try:
        _run(seed, kind)
    except AssertionError as error:
        return "changed the state twice" in str(error)
    return False


class KnownDoneIsNotChecked(Applied):
    def is_applied(self, position: int, path: int) -> bool:
        self._flush()
        return self._table.has(position, path)

    def is_repeat(self, positions: IdColumn, paths: IdColumn) -> Any:
        done, self._done = self._done, KnownDone()
        try:
            return super().is_repeat(positions, paths)
        finally:
            self._done = done


def _without(is_left_out: Callable[[bytes, bytes | None], bool]) -> type[Applied]:
    class Without(Applied):
        def changes(self) -> Mapping[bytes, bytes | None]:
            return {key: value for key, value in super().changes().items() if not is_left_out(key, value)}

    return Without


class DoneIsWrittenLater(Applied):
    """What is known is in the transaction that follows the one that drops identities."""

    def __init__(self) -> None:
        super().__init__()
        self._late: dict[bytes, bytes | None] = {}

    def changes(self) -> Mapping[bytes, bytes | None]:
        changes = dict(super().changes())
        late, self._late = self._late, {key: changes.pop(key) for key in [*changes] if key.startswith(DONE_PREFIX)}
        return {**late, **changes}


class OneDoneMessageIsEnough(Applied):
    """A record is deleted as soon as one of its positions is done."""

    def _deletable(self) -> frozenset[int]:
        positions = {number: self._table.positions[each.begin : each.end] for number, each in self._kept.items()}
        return frozenset(number for number, column in positions.items() if np.any(self._done.contains(column)))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(KnownDoneIsNotChecked, id="known done is not checked"),
        pytest.param(
            _without(lambda key, value: key.startswith(APPLIED_PREFIX) and value is not None),
            id="identities are not in the transaction",
        ),
        pytest.param(_without(lambda key, _: key.startswith(DONE_PREFIX)), id="known done is not part of the state"),
        pytest.param(DoneIsWrittenLater, id="known done is written a transaction later"),
        pytest.param(OneDoneMessageIsEnough, id="one done message deletes a record"),
    ],
)
def test_without_one_of_the_rules_a_history_goes_wrong(kind: type[Applied]) -> None:
    assert any(_changes_twice(seed, kind) for seed in range(_UNTIL_FOUND))
