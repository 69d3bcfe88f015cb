"""The reference of the metrics, made of the collectors of the code.

Marker: `<!-- metrics -->`.
"""

import importlib
from collections.abc import Iterator
from typing import Any, Final

_MARKER: Final = "<!-- metrics -->"


def filled_in(markdown: str) -> str:
    """A page with a table of all metrics where its marker stands."""
    if _MARKER not in markdown:
        return markdown
    rows = [f"| `{name}` | {labels} | {text} |" for name, labels, text in _metrics()]
    return markdown.replace(_MARKER, "\n".join(("| metric | labels | meaning |", "|---|---|---|", *rows)))


def _metrics() -> Iterator[tuple[str, str, str]]:
    worker, server = (
        importlib.import_module("acker_worker.metrics"),
        importlib.import_module("acker_cli.processes.metrics_server"),
    )
    components, sdk = importlib.import_module("spout_sdk.statistics.metrics"), importlib.import_module("spout_sdk")
    builder = sdk.TopologyBuilder("topology")
    builder.set_spout("spout", sdk.KafkaSpout("source"))
    collectors = (
        worker.WorkerCollector(dict),
        worker.ServingCollector(dict),
        components.ComponentCollector(builder.build().manifest, list),
        server.Health(dict),
    )
    for collector in collectors:
        for family in collector.collect():
            name = family.name + "_total" * (family.type == "counter")
            labels = [f"`{label}`" for label in _labels(family) if label != "topology"]
            yield name, ", ".join(labels), family.documentation


def _labels(family: Any) -> tuple[str, ...]:
    return tuple(family._labelnames)
