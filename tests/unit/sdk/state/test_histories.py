"""Each tuple of a message changes the state once, whatever fails; and each of the three rules is needed for that."""

import os
from random import SystemRandom

import pytest

from spout_sdk.state import applied as module
from tests.unit.sdk.state.histories import History


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are made anew now and then, and records have few identities."""
    monkeypatch.setattr(module, "_LEAST_ROOM", 1)
    monkeypatch.setattr(module, "MOST_OF_RECORD", 3)


def _run(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patches:
        # In every second history columns are checked by numpy, in the others one by one.
        patches.setattr(module, "_FEW", 24 if seed % 2 else 0)
        try:
            History(seed).run()
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
    _each(500)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(2))
def test_each_tuple_changes_the_state_once_in_many_histories(part: int) -> None:
    _each(20_000)
