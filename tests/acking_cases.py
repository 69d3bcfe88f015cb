"""The cases of the acking rules, written as the messages about one root.

A script is a line of messages: `I(a^b)` init with those edges, `A(a)` ack, `M(a)` ack with a mark, `F` fail, `R`
reset-timeout, `T` a tick. Edges are letters; each run gives them fresh random ids. A record
expires after three ticks without progress.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from operator import xor
from typing import Final

LIFETIME_TICKS: Final = 3
_MESSAGE: Final = re.compile(r"([IAMFRT])(?:\(([^)]*)\))?")


@dataclass(frozen=True)
class Message:
    """One message of a script; edges only for init, ack and mark."""

    kind: str
    edges: tuple[str, ...]

    def val(self, ids: Mapping[str, int]) -> int:
        """The XOR of the edges with these ids."""
        return reduce(xor, (ids[edge] for edge in self.edges), 0)


@dataclass(frozen=True)
class Case:
    """A script, and the outcomes that its spout receives, in order."""

    script: str
    outcomes: tuple[str, ...]

    def messages(self) -> Iterator[Message]:
        for kind, edges in _MESSAGE.findall(self.script):
            yield Message(kind, tuple(edge for edge in edges.split("^") if edge not in ("", "0")))


def _diamond() -> list[Case]:
    messages = ["I(a)", "A(a^b^c)", "A(c)", "A(b)"]
    return [Case(" ".join(order), ("ack",)) for order in permutations(messages)]


CASES: Final[list[Case]] = [
    Case("I(a) A(a)", ("ack",)),
    Case("A(a) I(a)", ("ack",)),
    Case("I(0)", ("ack",)),
    Case("I(a) F", ("failed",)),
    Case("F I(a)", ("failed",)),
    Case("A(a) F I(a)", ("ack",)),
    Case("I(a) I(a) A(a)", ("ack",)),
    Case("I(a) I(a) T T T", ("timeout",)),
    Case("I(a^b) A(a) A(a) A(b) T T T", ("timeout",)),
    Case("R I(a) A(a)", ("ack",)),
    Case("I(a) R A(a)", ("ack",)),
    Case("I(a) T T A(a)", ("ack",)),
    Case("I(a) T T T A(a)", ("timeout",)),
    Case("I(a^b) T T A(a) T A(b)", ("ack",)),
    Case("I(a) T T R T A(a)", ("ack",)),
    Case("A(a) T T I(a)", ("ack",)),
    Case("A(a)", ()),
    Case("A(a) T T T I(a) T T T", ("timeout",)),
    Case("F T T T I(a) A(a)", ("ack",)),
    Case("I(a) A(a) A(a)", ("ack",)),
    # An init repeated after its tree was done: a second, true ack, which the spout ignores.
    Case("I(a) A(a) A(a) I(a)", ("ack", "ack")),
    Case("I(a) M(a)", ("marked",)),
    Case("M(a) I(a)", ("marked",)),
    Case("I(a^b) M(a) A(b)", ("marked",)),
    Case("I(a^b) A(b) M(a)", ("marked",)),
    Case("I(a^b) M(a) M(b)", ("marked",)),
    # The mark of a tuple has an edge of its own: its tree is not acked before the mark is read.
    Case("I(a) A(a^b) M(b)", ("marked",)),
    Case("M(b) I(a) A(a^b)", ("marked",)),
    # A failed or timed-out tree loses its mark.
    Case("I(a^b) M(a) F", ("failed",)),
    Case("I(a^b) M(a) T T T", ("timeout",)),
    Case("M(a) T T T I(b) A(b)", ("ack",)),
    Case("I(a^b) T T M(a) T A(b)", ("marked",)),
    *_diamond(),
]
