"""Statistics of processes for Prometheus: nothing is counted for it, a scrape reads the latest snapshots."""

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tuple_tree.process_stats import metric_fields

Families = dict[str, CounterMetricFamily | GaugeMetricFamily]


def families(kind: type[Any], labels: Sequence[str], snapshots: Iterable[tuple[Sequence[str], Any]]) -> Families:
    """The metrics of a class of statistics, by name, of snapshots with the values of their labels.

    A negative number is not known, and not shown.
    """
    known, found = list(snapshots), Families()
    for name, metric in metric_fields(kind).items():
        make = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
        key, value = metric.label or (None, None)
        if metric.name not in found:
            found[metric.name] = make(metric.name, metric.help, labels=[*labels, *([key] if key else [])])
        for values, snapshot in known:
            number = getattr(snapshot, name)
            if isinstance(number, tuple | dict):
                number = len(number) if isinstance(number, tuple) else sum(number.values())
            number /= metric.divisor
            if number >= 0:
                found[metric.name].add_metric([*values, *([value] if value else [])], number)
    return found
