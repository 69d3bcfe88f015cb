"""Checks the options of a bolt that say what happens when its `execute` raises."""

from typing import Final

from spout_sdk.api.retry import RetryPolicy
from spout_sdk.api.topology import BoltOptions, OnConsecutiveFailures, OnException, OnExhausted
from spout_sdk.arguments import check_choice, check_count, check_seconds
from spout_sdk.errors import TopologyError
from tuple_tree.manifest import Manifest

_MOST_ADDED: Final = 10_000  # largest number of delays that are added up


def check_options(name: str, options: BoltOptions) -> None:
    """Raises `TopologyError` if an option of a bolt is invalid."""
    of = f"of bolt {name!r}"
    check_choice(f"on_exception {of}", options.on_exception, OnException)
    check_choice(f"on_exhausted {of}", options.on_exhausted, OnExhausted)
    check_choice(f"on_consecutive_failures {of}", options.on_consecutive_failures, OnConsecutiveFailures)
    if options.max_consecutive_failures is not None:
        check_count(f"max_consecutive_failures {of}", options.max_consecutive_failures, least=0)
    if options.tick_interval is not None:
        check_seconds(f"tick_interval {of}", options.tick_interval)


def check_retry(name: str, on_exception: OnException | None, retry: RetryPolicy | None, exhausted: OnExhausted) -> None:
    """Raises `TopologyError` if an option of a bolt's retries, as given, has no effect."""
    if retry is not None and on_exception is None:
        raise TopologyError(
            f'bolt {name!r} has retry=, but no on_exception: add on_exception="retry", so that a tuple whose execute '
            'raised is executed again; or on_exception="fail", if only RetryTupleError and collector.retry do that'
        )
    if exhausted != "fail" and (retry is None or retry.max_retries is None):
        raise TopologyError(
            f"bolt {name!r} has on_exhausted={exhausted!r}, but its retries have no end: add "
            "retry=RetryPolicy(max_retries=…)"
        )


def check_retries(manifest: Manifest, name: str, options: BoltOptions) -> None:
    """Raises `TopologyError` if a bolt's tuples cannot be retried, or if its retries exceed the largest tree age."""
    if options.on_exception != "retry":
        return
    if not manifest.acking:
        raise TopologyError(
            f'bolt {name!r} has on_exception="retry", but guarantee="at_most_once" executes no tuple twice: use '
            "at_least_once, or leave on_exception out"
        )
    policy, seconds, limit = options.retry, 0.0, manifest.max_tree_age_ms / 1000
    retries = 1 if policy.max_retries is None else min(policy.max_retries, _MOST_ADDED)
    for failures in range(1, retries + 1):
        seconds += policy.delay(failures) or 0.0
        if seconds >= limit:
            raise TopologyError(
                f"bolt {name!r} retries a tuple after {seconds:g} s, with retry {failures}, but its trees fail at "
                f"max_tree_age, {limit:g} s, and are replayed: give the RetryPolicy shorter delays or fewer "
                "max_retries, or raise max_tree_age of the TopologyBuilder"
            )
