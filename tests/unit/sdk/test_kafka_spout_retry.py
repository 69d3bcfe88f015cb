"""The retry policy and its schedule: the cases of Storm's `KafkaSpoutRetryExponentialBackoffTest`, and a model."""

import random

from spout_sdk import RetryPolicy
from spout_sdk.kafka_spout.retry import RetrySchedule
from tests.seeds import each_seed


def test_delays_back_off_exponentially_up_to_the_cap_until_the_last_retry() -> None:
    policy = RetryPolicy(initial_delay=0, delay_period=4, max_delay=30, max_retries=None)
    assert [policy.delay(failures) for failures in (*range(1, 6), 100_000)] == [0, 8, 16, 30, 30, 30]
    assert RetryPolicy(initial_delay=0.5, delay_period=4, max_delay=10).delay(1) == 0.5
    assert RetryPolicy(initial_delay=60, max_delay=10).delay(1) == 10
    assert [RetryPolicy(max_retries=3).delay(failures) is None for failures in (1, 2, 3, 4)] == [False] * 3 + [True]
    assert RetryPolicy(max_retries=0).delay(1) is None


def test_the_schedule_is_as_a_sorted_list() -> None:
    def check(seed: int) -> None:
        rng = random.Random(seed)
        schedule, model, now = RetrySchedule(), dict[int, tuple[float, int]](), 0.0
        for number in range(500):
            act, key = rng.random(), rng.randrange(20)
            if act < 0.5:
                due_at = now + rng.choice([0.0, 1.0, rng.random() * 5])
                schedule.put(key, due_at)
                model[key] = (due_at, number)
            elif act < 0.6:
                assert schedule.remove(key) == (model.pop(key, None) is not None)
            else:
                now += rng.choice([0.0, 1.0, rng.random()])
                limit = rng.randrange(1, 6)
                ready = sorted((due, key) for key, due in model.items() if due[0] <= now)[:limit]
                assert schedule.take(now, limit) == [key for _, key in ready]
                for _, key in ready:
                    del model[key]
            assert len(schedule) == len(model)
            assert all((key in schedule) == (key in model) for key in range(20))

    each_seed(check)
