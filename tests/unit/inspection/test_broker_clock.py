"""A reader's clock that is wrong does not make processes look gone."""

import pytest

from inspection.broker_clock import BrokerClock


def test_without_a_record_the_machines_clock_counts() -> None:
    assert BrokerClock().now_ms(1_000) == 1_000


@pytest.mark.parametrize("ahead_ms", [-60_000, 0, 60_000])
def test_the_record_that_took_least_counts(ahead_ms: int) -> None:
    clock = BrokerClock()
    for local_ms, took_ms in ((10_000, 300), (11_000, 5), (12_000, 9_000)):
        clock.heard(local_ms - ahead_ms - took_ms, local_ms)
    assert clock.now_ms(20_000) == 20_000 - ahead_ms - 5
