"""When a spout delivers a failed message again, and a bolt executes a failed tuple again."""

from dataclasses import dataclass

from spout_sdk.arguments import check_count, check_seconds


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff, like Storm's `KafkaSpoutRetryExponentialBackoff`.

    The first failure is retried after `initial_delay`, the n-th after `delay_period * 2 ** (n - 1)`, never later than
    `max_delay`. It is retried until it is acked, or `max_retries` times: then a message of a `KafkaSpout` becomes a
    dead letter, and a tuple of a bolt is failed or becomes a dead letter, as `on_exhausted` of `set_bolt` says.

    Attributes:
        initial_delay: seconds.
        delay_period: seconds.
        max_delay: seconds.
        max_retries: deliveries or executions after the first one; None, the default, for no limit.

    Raises:
        TopologyError: if a number is invalid.
    """

    initial_delay: float = 0.0
    delay_period: float = 0.1
    max_delay: float = 10.0
    max_retries: int | None = None

    def __post_init__(self) -> None:
        for name in ("initial_delay", "delay_period", "max_delay"):
            check_seconds(f"{name} of a RetryPolicy", getattr(self, name), least=0)
        if self.max_retries is not None:
            check_count("max_retries of a RetryPolicy", self.max_retries, least=0)

    def delay(self, failures: int) -> float | None:
        """Seconds from a failure to the next delivery or execution.

        Args:
            failures: how often the message or the tuple has failed, this time included.

        Returns:
            None if it is not tried again.
        """
        if self.max_retries is not None and failures > self.max_retries:
            return None
        if failures <= 1:
            return min(self.initial_delay, self.max_delay)
        # A larger power of two would overflow a float; this one is far above any cap.
        return min(self.delay_period * 2.0 ** min(failures - 1, 512), self.max_delay)
