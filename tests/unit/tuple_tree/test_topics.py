"""The topics of a topology, as the wire contract has them."""

from typing import Any

import pytest

from tests.manifests import bolt, counting, manifest, spout
from tuple_tree.manifest import Guarantee, Manifest
from tuple_tree.topics import STORE_HOURS, TopicSpec, is_compacted, short_retention, topic_specs


def _manifest(*, guarantee: Guarantee = "at_least_once", max_tree_age_ms: int = 300_000) -> Manifest:
    components = (spout("lines", tasks=2), spout("more"), bolt("split", "lines"), bolt("count", "lines"))
    return manifest(*components, guarantee=guarantee, max_tree_age_ms=max_tree_age_ms)


def _specs(**settings: Any) -> dict[str, TopicSpec]:
    specs = topic_specs(_manifest(**settings))
    assert len({spec.name for spec in specs}) == len(specs)
    return {spec.name: spec for spec in specs}


def test_an_ack_log_is_kept_for_three_times_the_largest_tree_age_and_only_where_there_are_acks() -> None:
    assert _specs().keys() - _specs(guarantee="at_most_once").keys() == {"words.acks"}
    assert _specs(guarantee="at_most_once")["words.notices.lines"].partitions == 2, "its group shares the tasks"
    assert _specs()["words.acks"].config["retention.ms"] == str(24 * 3_600_000)
    assert _specs(max_tree_age_ms=10 * 3_600_000)["words.acks"].config["retention.ms"] == str(30 * 3_600_000)


@pytest.mark.parametrize(
    ("config", "remedy"),
    [
        ({"retention.ms": "300000", "retention.bytes": "-1"}, None),
        ({"retention.ms": "-1", "retention.bytes": "-1"}, None),
        ({}, None),
        ({"retention.ms": "299999", "retention.bytes": "-1"}, "--add-config retention.ms=300000"),
        ({"retention.ms": "-1", "retention.bytes": "0"}, "--add-config retention.bytes=-1"),
    ],
)
def test_an_ack_log_with_too_short_a_retention_has_a_remedy(config: dict[str, str | None], remedy: str | None) -> None:
    found = short_retention(_manifest(max_tree_age_ms=100_000), config)
    assert found is None if remedy is None else str(found).endswith(remedy)


def test_the_stats_are_kept_for_two_hours_on_the_brokers_time() -> None:
    specs = _specs()
    assert [spec.name for spec in specs.values() if spec.optional] == ["words.stats"]
    spec = specs["words.stats"]
    assert spec.required == {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
    assert int(spec.config["retention.ms"]) == 2 * 3_600_000
    assert int(spec.config["segment.ms"]) < int(spec.config["retention.ms"]), "a segment is deleted as a whole"


def test_a_changelog_is_compacted_and_keeps_tombstones_longer_than_a_store_on_disk_may_be_closed() -> None:
    specs = topic_specs(manifest(spout("lines"), counting("count", "lines", tasks=3)))
    (spec,) = [spec for spec in specs if spec.name == "words.state.count"]
    assert spec.partitions == 3
    assert spec.required["cleanup.policy"] == "compact"
    assert int(spec.required["delete.retention.ms"]) >= 2 * STORE_HOURS * 3_600_000
    assert spec.required.items() <= spec.config.items()
    assert [each.name for each in specs if is_compacted(each)] == ["acker.topologies", spec.name]
    assert not any(".state." in name for name in _specs())


@pytest.mark.parametrize("windows", [None, "change"])
def test_only_the_results_of_closed_windows_have_a_topic(windows: Any) -> None:
    specs = topic_specs(manifest(spout("lines"), counting("count", "lines", tasks=3, windows=windows)))
    assert not any(".results." in spec.name for spec in specs)
