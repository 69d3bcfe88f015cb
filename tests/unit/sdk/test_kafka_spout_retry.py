"""The retry policy and its schedule: the cases of Storm's `KafkaSpoutRetryExponentialBackoffTest`, and a model."""

import random

import pytest

from spout_sdk import RetryPolicy, TopologyError
from spout_sdk.kafka_spout.retry import RetrySchedule


def test_the_first_retry_comes_after_the_initial_delay() -> None:
    policy = RetryPolicy(initial_delay=0.5, delay_period=4, max_delay=10, max_retries=None)
    assert policy.delay(1) == 0.5


def test_further_retries_back_off_exponentially_up_to_the_cap() -> None:
    policy = RetryPolicy(initial_delay=0, delay_period=4, max_delay=30, max_retries=None)
    assert [policy.delay(failures) for failures in range(1, 6)] == [0, 8, 16, 30, 30]
    assert policy.delay(100_000) == 30


def test_the_cap_holds_for_the_initial_delay_too() -> None:
    assert RetryPolicy(initial_delay=60, max_delay=10).delay(1) == 10


def test_after_the_largest_number_of_retries_there_are_no_more() -> None:
    policy = RetryPolicy(max_retries=3)
    assert all(policy.delay(failures) is not None for failures in (1, 2, 3))
    assert policy.delay(4) is None
    assert RetryPolicy(max_retries=0).delay(1) is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"initial_delay": -1.0}, "initial_delay of a RetryPolicy is -1.0 seconds"),
        ({"delay_period": float("nan")}, "delay_period of a RetryPolicy is nan"),
        ({"max_delay": float("inf")}, "max_delay of a RetryPolicy is inf"),
        ({"max_retries": -1}, "max_retries of a RetryPolicy is -1"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        RetryPolicy(**settings)  # type: ignore[arg-type]


def test_what_is_scheduled_is_ready_when_it_is_due() -> None:
    schedule = RetrySchedule()
    schedule.put(7, 10.0)
    assert 7 in schedule
    assert 8 not in schedule
    assert schedule.take(9.9, 5) == []
    assert schedule.take(10.0, 5) == [7]
    assert 7 not in schedule
    assert schedule.take(99.0, 5) == []


def test_retries_come_in_the_order_of_their_due_times() -> None:
    schedule = RetrySchedule()
    for key, due_at in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 1.0)):
        schedule.put(key, due_at)
    assert schedule.take(9.0, 3) == [2, 4, 3]
    assert schedule.take(9.0, 3) == [1]


def test_what_is_scheduled_again_is_moved() -> None:
    schedule = RetrySchedule()
    schedule.put(1, 1.0)
    schedule.put(1, 5.0)
    assert len(schedule) == 1
    assert schedule.take(4.0, 9) == []
    schedule.put(1, 2.0)
    assert schedule.take(4.0, 9) == [1]
    assert schedule.take(9.0, 9) == []


def test_what_was_removed_does_not_come() -> None:
    schedule = RetrySchedule()
    schedule.put(1, 1.0)
    assert schedule.remove(1)
    assert not schedule.remove(1)
    assert (len(schedule), schedule.take(9.0, 9)) == (0, [])


@pytest.mark.parametrize("seed", range(20))
def test_the_schedule_against_a_model(seed: int) -> None:
    rng = random.Random(seed)
    schedule, model, now = RetrySchedule(), dict[int, tuple[float, int]](), 0.0
    for number in range(500):
        act, key = rng.random(), rng.randrange(20)
        if act < 0.5:
            due_at = now + rng.choice([0.0, 1.0, rng.random() * 5])
            schedule.put(key, due_at)
            model[key] = (due_at, number)
        elif act < 0.6:
            assert schedule.remove(key) == (model.pop(key, None) is not None), f"seed {seed}"
        else:
            now += rng.random()
            limit = rng.randrange(1, 6)
            ready = sorted((due, key) for key, due in model.items() if due[0] <= now)[:limit]
            assert schedule.take(now, limit) == [key for _, key in ready], f"seed {seed}"
            for _, key in ready:
                del model[key]
        assert len(schedule) == len(model), f"seed {seed}"
