"""The faults of the processes and brokers of all topologies: those of `acker chaos`, and more."""

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from acker_cli.chaos.faults import End, FaultKind, process_faults
from tests.chaos.brokers import Brokers
from tests.chaos.targets import Target

_STAYS: Final = (5.0, 15.0)
"""How long a process that joins stays, in seconds."""


@dataclass(frozen=True, slots=True)
class OwnKind(FaultKind):
    """A fault with the topologies that may lose messages by it, with `at_most_once`."""

    crashes: tuple[Target, ...] = ()


def all_kinds(brokers: Brokers, targets: Sequence[Target], only: str | None = None) -> list[list[OwnKind]]:
    """The faults to draw from, one half of the brokers; `only` the ones whose names begin so.

    A component is killed, suspended, ended in order, or joined by one more process for a while.
    """
    of_processes = [kinds for target in targets for kinds in _of_processes(target)]
    tracked = [target.topology for target in targets if target.tracked]
    of_brokers = [OwnKind(each.name, each.seconds, each.begin, tuple(targets)) for each in brokers.kinds(tracked)]
    groups = [*of_processes, *([of_brokers] * len(of_processes))]
    chosen = [[kind for kind in kinds if only is None or kind.name.startswith(only)] for kinds in groups]
    return [kinds for kinds in chosen if kinds]


def _of_processes(target: Target) -> Iterator[list[OwnKind]]:
    for component in target.components:
        name = f"Spark {component}" if component in target.in_spark else component
        kill, suspend, _ = process_faults(name, partial(target.pids, component), together=True)
        yield [OwnKind(each.name, each.seconds, each.begin, (target,)) for each in (kill, suspend)]
    if target.tracked:
        ackers = process_faults("acker", partial(target.pids, "acker"))
        yield [OwnKind(each.name, each.seconds, each.begin, (target,)) for each in ackers]
    of_sdk = [each for each in target.components if each not in target.in_spark]
    clean = [kind for component in of_sdk for kind in _clean(target, component)]
    yield clean


def _clean(target: Target, component: str) -> list[OwnKind]:
    def end(_rng: random.Random) -> End:
        target.end(component)
        return lambda: None

    def join(_rng: random.Random) -> End:
        stack = ExitStack()
        stack.enter_context(target.joined(component))
        return stack.close

    return [OwnKind(f"end {component}", (0.0,), end), OwnKind(f"join {component}", _STAYS, join)]
