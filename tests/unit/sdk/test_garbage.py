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


def test_collections_come_rarely_unless_the_thresholds_were_changed() -> None:
    for before, after in ((DEFAULT, RARELY), ((900, 5, 5), (900, 5, 5))):
        gc.set_threshold(*before)
        collect_rarely()
        assert (gc.get_freeze_count() > 1_000, gc.get_threshold()) == (True, after)
