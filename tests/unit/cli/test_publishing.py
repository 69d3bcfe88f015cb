"""Changes of a manifest that are rejected while processes run."""

from acker_cli.cluster.publishing import breaking_changes
from tests.manifests import bolt, chained, manifest, spout


def test_processes_must_not_run_while_a_bolt_gets_an_inbox_or_loses_it() -> None:
    apart, together = manifest(spout("a"), bolt("b", "a")), manifest(spout("a"), chained("b", "a"))
    assert breaking_changes(apart, together) == ["'b' is chained to 'a', and had an inbox"]
    assert breaking_changes(together, apart) == ["'b' has an inbox, and was chained to 'a'"]
    assert breaking_changes(together, together) == breaking_changes(manifest(spout("a")), together) == []
