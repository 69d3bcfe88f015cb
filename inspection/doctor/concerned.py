"""Which component a finding is about."""

from inspection.doctor.findings import Finding
from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, notices_topic, tuples_topic


def component_of(finding: Finding, manifest: Manifest) -> str | None:
    """The component whose name, group, inbox or notices a finding names; None if it concerns no single one."""
    topology = manifest.topology
    for component in manifest.components:
        name = component.name
        own = (name, component_group(topology, name), tuples_topic(topology, name), notices_topic(topology, name))
        if finding.subject in own:
            return name
    return None
