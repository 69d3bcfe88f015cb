"""Problems of a machine, a cluster and its topologies, with their fixes. Pure: facts in, findings out.

- `facts`: the input of checks, which `inspection.doctor_gathering` gathers; `findings`: their output.
- `cluster_checks`, `topic_checks`, `group_checks`: a function for each check; `examination`: all of them, in order.
"""

from inspection.doctor.examination import examine
from inspection.doctor.facts import (
    Backlog,
    ClockBounds,
    ClusterFacts,
    Facts,
    MachineFacts,
    PartitionFacts,
    TopicFacts,
    TopologyFacts,
)
from inspection.doctor.findings import Finding, Severity, component_of, exit_code

__all__ = [
    "Backlog",
    "ClockBounds",
    "ClusterFacts",
    "Facts",
    "Finding",
    "MachineFacts",
    "PartitionFacts",
    "Severity",
    "TopicFacts",
    "TopologyFacts",
    "component_of",
    "examine",
    "exit_code",
]
