"""The settings of components by which their statistics are judged: see `Topology.settings`."""

from collections.abc import Mapping
from typing import Any

from spout_sdk.api.topology import BoltOptions
from spout_sdk.bolts.async_bolt import AsyncBolt
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.windows.aggregate_bolt import AggregateBolt


def component_settings(made: Mapping[str, Any], options: Mapping[str, BoltOptions]) -> dict[str, dict[str, int]]:
    """The settings of each component that has any.

    Args:
        made: component → its class, or an instance; None for external ones.
        options: bolt → its options.
    """
    found = {name: _settings(of, options.get(name)) for name, of in made.items() if of is not None}
    return {name: settings for name, settings in found.items() if settings}


def _settings(made: Any, options: BoltOptions | None) -> dict[str, int]:
    cls, settings = made if isinstance(made, type) else type(made), dict[str, int]()
    if issubclass(cls, AsyncBolt):
        settings["concurrency"] = made.concurrency
        if made.time_limit is not None:
            settings["time_limit_ms"] = round(1000 * made.time_limit)
    if issubclass(cls, AggregateBolt) and made.window.late_stream is not None:
        settings["late_stream"] = 1
    policy = made.retry if issubclass(cls, KafkaSpout) else options.retry if options is not None else None
    if policy is not None and policy.max_retries is not None:
        settings["max_retries"] = policy.max_retries
    return settings
