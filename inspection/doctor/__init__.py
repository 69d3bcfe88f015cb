"""What is wrong with a machine, a cluster and its topologies, and what to do.

Pure: facts in, findings out. Who gathers the facts is `inspection.doctor_gathering`.

  `facts`: what was seen.
  `findings`: what is said of it, and the exit code.
  `examination`: all checks, in order.
  `concerned`: which component a finding is about.
  `machine_checks`, `cluster_checks`, `topic_checks`, `group_checks`: the checks, a function each.
"""

from inspection.doctor.concerned import component_of
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
from inspection.doctor.findings import Finding, Severity, exit_code

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
