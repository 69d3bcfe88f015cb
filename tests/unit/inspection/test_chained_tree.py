"""Trees of topologies with chained bolts, which have no inbox."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspection.errors import RootFormError
from inspection.notation import place_of_tuple
from inspection.trace.output import tree_as_json, verdict
from inspection.trace.records import Origin, State
from inspection.trace.tree import Status, Tree, build_tree
from tests.chained_clicks import topology
from tests.unit.inspection.forest import ROOT, SPOUT, Forest
from tuple_tree.messages import FailReason

CHAINS = {"lines": ("parse", "clean"), "split": ("filter",)}


def built(forest: Forest, failed: FailReason | None = None) -> Tree:
    return build_tree(forest.records(ROOT, failed=failed), spouts=["lines"], chains=CHAINS)


def test_a_tuple_that_a_chained_bolt_emits_is_a_child_of_the_input_of_its_task() -> None:
    forest = Forest(1, (ROOT,))
    (line,) = forest.begin(ROOT, "split", 1)
    word = forest.emit((line,), "count", 0, "filter")
    direct = forest.emit((line,), "store", 0)
    (open_line, _, _) = built(forest).nodes
    assert verdict(built(forest)).startswith(
        "open: 3 of 3 tuples, `split` task 0 with `filter`, chained to it, has not"
    )
    forest.ack(line)
    forest.ack(word)
    tree = built(forest)
    assert not tree.unexplained
    parent, *children = tree.nodes
    assert (parent.bolt, parent.state) == ("split", State.ACKED) == (open_line.bolt, State.ACKED)
    assert all(child.parents == (parent,) and child.origin is Origin.REPORTED for child in children)
    shown = {each["bolt"]: (each["source"], each["chain"]) for each in tree_as_json(tree)["tuples"]}
    assert shown["count"] == ("filter", ["split", "filter"])
    assert shown["store"] == ("split", ["split"])
    forest.ack(direct)
    assert built(forest).status is Status.ACKED


@given(st.integers(0, 2**32), st.integers(0, 4), st.integers(0, 4))
def test_the_edge_of_the_spout_stands_for_its_open_chain(seed: int, early: int, late: int) -> None:
    forest = Forest(seed, (ROOT,))
    own = forest.id()
    left = [forest.leave("count", "parse", "clean") for _ in range(early)]
    forest.add_entry(ROOT, "init", "lines/0", _sum(forest, left) ^ own, SPOUT)
    for at in left:
        forest.ack(at)
    tree = built(forest)
    assert (tree.status, tree.is_in_chain) == (Status.OPEN, True)
    expected = "all of" if early else "; none of its tuples has left the chain"
    assert verdict(tree).startswith("open: it is in the chain of `lines` with `parse`, `clean`")
    assert expected in verdict(tree)
    later = [forest.leave("count", "parse") for _ in range(late)]
    forest.add_entry(ROOT, "ack", "lines/0", _sum(forest, later) ^ own)
    for at in later:
        forest.ack(at)
    tree = built(forest)
    assert (tree.status, tree.is_in_chain, tree.spout) == (Status.ACKED, False, "lines")
    assert not tree.unexplained
    assert all(node.origin is Origin.REPORTED and not node.parents for node in tree.nodes)
    assert "none of its tuples has left the chain" in verdict(tree) or tree.nodes


def test_many_tuples_that_leave_an_open_chain_are_found() -> None:
    forest = Forest(7, (ROOT,))
    own = forest.id()
    early, late = ([forest.leave("count", "parse") for _ in range(80)] for _ in range(2))
    forest.add_entry(ROOT, "init", "lines/0", _sum(forest, early) ^ own, SPOUT)
    forest.add_entry(ROOT, "ack", "lines/0", _sum(forest, late) ^ own)
    tree = built(forest)
    assert not tree.unexplained
    assert all(node.origin is Origin.REPORTED for node in tree.nodes)


def test_a_tree_that_fails_in_its_chain_has_no_tuples() -> None:
    forest = Forest(1, (ROOT,))
    forest.add_entry(ROOT, "init", "lines/0", forest.id(), SPOUT)
    forest.add_entry(ROOT, "fail", "lines/0")
    failed = verdict(built(forest, FailReason.FAILED))
    assert failed == "failed, by lines/0 (no): none of its tuples has left the chain of `lines`"


def test_a_tuple_of_a_chained_bolt_is_in_no_inbox() -> None:
    manifest = topology.manifest
    assert place_of_tuple("count/1@7", manifest) == ("count", 1, 7, None)
    with pytest.raises(RootFormError, match="parse is chained, and its tuples stay in the tasks of clicks; give"):
        place_of_tuple("parse/0@7", manifest)
    with pytest.raises(RootFormError, match="the bolts with an inbox are count with 2 tasks"):
        place_of_tuple("parse", manifest)


def _sum(forest: Forest, tuples: list[int]) -> int:
    val = 0
    for at in tuples:
        val ^= forest.tuples[at].edges[ROOT]
    return val
