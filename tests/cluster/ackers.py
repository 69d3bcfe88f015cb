"""The partitions of the ack log that each acker worker owns, from its log."""

import re
from typing import Final

from tests.cluster.project import Container, Project
from tests.waiting import eventually

PARTITIONS: Final = frozenset(range(8))
_SAID: Final = re.compile(
    r"(?:acker worker of \S+ (?P<life>started)|(?P<did>took over|released) partitions \[(?P<which>[\d, ]*)\])"
)


def owned(log: str) -> frozenset[int]:
    """The partitions that a worker with this log has now."""
    held: set[int] = set()
    for entry in _SAID.finditer(log):
        if entry["life"]:
            held.clear()
            continue
        which = {int(number) for number in entry["which"].split(",") if number.strip()}
        held = held | which if entry["did"] == "took over" else held - which
    return frozenset(held)


def shared_by(project: Project, workers: list[Container]) -> bool:
    """Whether these workers have all partitions, each of them some, and none two."""
    shares = [owned(project.log(worker)) for worker in workers]
    return all(shares) and frozenset().union(*shares) == PARTITIONS and sum(map(len, shares)) == len(PARTITIONS)


def await_shared(project: Project, workers: list[Container]) -> None:
    """Waits until just these workers have all partitions."""
    names = ", ".join(worker.name for worker in workers)
    eventually(lambda: shared_by(project, workers), f"{names} share all partitions", 90)
