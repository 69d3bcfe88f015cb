"""Tuples that are anchored to several inputs."""

from collections.abc import Iterator
from typing import Any, get_args

from tests.contract.bolts import pair, through, together
from tests.contract.crashes import KEEPS, TIMEOUTS
from tests.contract.scenario import REPLAYING, Part, Scenario, dies, feed, feed_some, restarted, until_executed
from tuple_tree.manifest import Guarantee


def joins() -> Iterator[Scenario]:
    pairs, batches = through(Part("pair", pair)), through(Part("pair", together))
    chain = through(Part("pair", pair, "local"), "local")
    for guarantee in get_args(Guarantee):
        yield Scenario(f"pairs, {guarantee}", pairs, guarantee=guarantee)
        yield Scenario(f"batches, {guarantee}", batches, guarantee=guarantee)
        yield Scenario(f"pairs in a chain, {guarantee}", chain, guarantee=guarantee)
    for guarantee in REPLAYING:
        of: dict[str, Any] = {"guarantee": guarantee, "settings": {"message_timeout": TIMEOUTS[guarantee]}}
        for name, bolts, head in (("", pairs, "pair"), (" in a chain", chain, "messages")):
            # A tick emits for the last one.
            yield Scenario(f"three{name}, {guarantee}", bolts, texts=("a b", "c"), **of)
            fails = {("end", "d"): 1}
            again = "at least once"
            yield Scenario(f"a pair{name} fails, {guarantee}", bolts, raises=fails, times=again, **of)  # type: ignore[arg-type]
            keeps = {"times": KEEPS[guarantee], **of}
            held = (dies(head, "executes", 3), feed)  # while another input is held
            yield Scenario(f"half of a pair{name}, {guarantee}", bolts, held, deaths=1, **keeps)
            moves = (feed_some(3), until_executed("pair", 4), restarted(head), feed)
            yield Scenario(f"a pair{name} restarts, {guarantee}", bolts, moves, **keeps)
        sent = (dies("pair", "sends acks"), feed)
        yield Scenario(
            f"a pair is sent, {guarantee}", pairs, sent, deaths=1, is_quick=guarantee == "exactly_once", **keeps
        )


JOINS = [*joins()]
