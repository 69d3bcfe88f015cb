"""Each kind of bolt, chained or not, with each guarantee, when nothing goes wrong."""

from collections.abc import Iterator
from typing import get_args

from tests.contract.bolts import KINDS, line
from tests.contract.scenario import Scenario
from tuple_tree.manifest import Guarantee

QUICK = {("columns", "at_least_once"), ("coroutines", "exactly_once"), ("steps", "at_most_once")}


def plain() -> Iterator[Scenario]:
    for guarantee in get_args(Guarantee):
        for kind in KINDS:
            is_quick = (kind, guarantee) in QUICK
            yield Scenario(f"{kind}, {guarantee}", line(kind), guarantee=guarantee, is_quick=is_quick)
        for kind in ("basic", "columns", "coroutines", "steps"):
            chain = line(kind, "local")
            yield Scenario(f"{kind} in a chain, {guarantee}", chain, guarantee=guarantee)
        for links in (("shuffle", "local"), ("local", "shuffle")):
            yield Scenario(f"{' then '.join(links)}, {guarantee}", line("basic", *links), guarantee=guarantee)


PLAIN = [*plain()]
