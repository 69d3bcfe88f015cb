"""How often a component's process looks for garbage."""

import gc
from collections.abc import Iterator

import pytest

from spout_sdk.garbage import DEFAULT, RARELY, collect_rarely


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_loaded_is_left_alone_and_collections_come_rarely() -> None:
    gc.set_threshold(*DEFAULT)
    collect_rarely()
    assert gc.get_freeze_count() > 1_000
    assert gc.get_threshold() == RARELY


def test_thresholds_that_somebody_has_set_stay() -> None:
    gc.set_threshold(900, 5, 5)
    collect_rarely()
    assert gc.get_threshold() == (900, 5, 5)


def test_what_becomes_garbage_later_is_still_found() -> None:
    collect_rarely()
    circle: list[object] = []
    circle.append(circle)
    del circle
    assert gc.collect() >= 1
