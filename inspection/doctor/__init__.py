"""What is wrong with a machine, a cluster and its topologies, and what to do.

Pure: facts in, findings out. Who gathers the facts is `acker_cli.doctor_gathering`.

  `facts`: what was seen.
  `findings`: what is said of it, and the exit code.
  `examination`: all checks, in order.
  `machine_checks`, `cluster_checks`, `topic_checks`, `group_checks`: the checks, a function each.
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
    "examine",
    "exit_code",
]
