"""The doctor in a process of its own, for those that ask again and again.

Some of its requests abort the process where a broker goes away meanwhile (ADR 18); the caller then has no answer, and
goes on. The request stands on standard input, for settings may hold passwords.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from inspection.doctor.examination import examine
from inspection.doctor.findings import component_of
from inspection.doctor_gathering import look_at_all
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.errors import ClusterError

WATCH_S: Final = 3.0  # how long lag is watched
_LONGEST_S: Final = 120.0  # after so long there is no answer


def findings_of(
    kafka: KafkaSettings, topology: str, started: Callable[["subprocess.Popen[str]"], None]
) -> Sequence[Mapping[str, Any]]:
    """What the doctor finds: the members of `Finding`, and the `component` that it is about, or None."""
    request = json.dumps({"kafka": dict(kafka), "topology": topology, "watch_s": WATCH_S})
    pipe, command = subprocess.PIPE, [sys.executable, "-m", __name__]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    started(process)
    try:
        output, _ = process.communicate(request, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        output = ""
    finally:
        process.kill()
        process.wait()
    try:
        found: list[dict[str, Any]] = json.loads(output)
    except ValueError as error:
        raise ClusterError(
            f"acker doctor {topology} did not come to an end: run it in a terminal, and check the brokers"
        ) from error
    return found


def main() -> None:
    request = json.load(sys.stdin)
    topology = request["topology"]
    facts = look_at_all(request["kafka"], topology, None, request["watch_s"], lambda _line: None, with_machine=False)
    manifests = [each.manifest for each in facts.topologies]
    findings = [
        {**asdict(finding), "component": component_of(finding, manifests[0]) if manifests else None}
        for finding in examine(facts)
    ]
    json.dump(findings, sys.stdout)


if __name__ == "__main__":
    main()
