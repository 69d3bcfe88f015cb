"""Trees are built from their records, in any order."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspection.trace.output import tree_as_json, verdict
from inspection.trace.records import LogEntry, Node, Origin, State
from inspection.trace.tree import Status, Tree, build_tree
from tests.unit.inspection.forest import ROOT, Forest, Grown

OTHER = 7
CHAIN = ("split", "count", "store", "audit")


def grown_at(forest: Forest, node: Node) -> Grown:
    (found,) = (
        grown
        for grown in forest.tuples
        if (grown.bolt, grown.task, grown.offset) == (node.bolt, node.task, node.offset)
    )
    return found


def parents_in(node: Node) -> set[tuple[str, int, int]]:
    return {(parent.bolt, parent.task, parent.offset) for parent in node.parents}


def assert_true_of(forest: Forest, tree: Tree) -> None:
    """The tree is right and complete."""
    assert len(tree.nodes) == len(forest.of(tree.root))
    assert not tree.unexplained
    for node in tree.nodes:
        grown = grown_at(forest, node)
        assert node.state is (State.ACKED if grown.acked else State.OPEN)
        parents = [forest.tuples[at] for at in grown.parents if tree.root in forest.tuples[at].edges]
        if node.origin is Origin.AMBIGUOUS:
            # The children of a tuple are unknown until its ack.
            assert not any(parent.acked for parent in parents)
        elif len(parents) == 1:
            assert parents_in(node) == {(parents[0].bolt, parents[0].task, parents[0].offset)}
        else:
            assert parents_in(node) <= {(parent.bolt, parent.task, parent.offset) for parent in parents}
    open_ = sum(not grown.acked for grown in forest.of(tree.root))
    assert tree.status is (Status.OPEN if open_ else Status.ACKED)
    text = verdict(tree)
    total = len(tree.nodes)
    assert text.startswith(f"open: {open_} of {total} tuple" if open_ else "acked after ")


@given(st.integers(0, 2**32), st.integers(1, 4), st.floats(0, 1), st.booleans())
def test_random_trees(seed: int, tasks: int, acked: float, several: bool) -> None:
    """Every bolt emits to the next one, sometimes anchored to a tuple of another tree as well."""
    choice = random.Random(seed)
    forest = Forest(seed, (ROOT, OTHER))
    fresh = {ROOT: forest.begin(ROOT, CHAIN[0], choice.randint(1, 3)), OTHER: forest.begin(OTHER, CHAIN[0], 1)}
    generation = [at for born in fresh.values() for at in born]
    for bolt in CHAIN[1:]:
        following = []
        for at in generation:
            if len(forest.of(ROOT)) > 25:
                break
            for _ in range(choice.randint(0, 3)):
                partners = [
                    each
                    for each in generation
                    if each != at
                    and not forest.tuples[each].acked
                    and not forest.tuples[each].edges.keys() & forest.tuples[at].edges.keys()
                ]
                anchors = (at, choice.choice(partners)) if several and partners and choice.random() < 0.3 else (at,)
                following.append(forest.emit(anchors, bolt, choice.randrange(tasks)))
        for at in generation:
            if choice.random() < acked:
                forest.ack(at)
        generation = following
    for at in generation:
        if choice.random() < acked:
            forest.ack(at)
    for root in (ROOT, OTHER):
        assert_true_of(forest, build_tree(forest.records(root)))


@given(st.integers(0, 2**32), st.integers(2, 6), st.booleans())
def test_a_child_of_several_tuples_of_one_tree_has_one_parent(seed: int, parts: int, finished: bool) -> None:
    """Its edge is in the ack of one of them."""
    forest = Forest(seed, (ROOT,))
    (line,) = forest.begin(ROOT, "split", 1)
    words = [forest.emit((line,), "join", number % 2) for number in range(parts)]
    forest.ack(line)
    joined = forest.emit(tuple(words), "store", 0)
    for word in words:
        forest.ack(word)
    if finished:
        forest.ack(joined)
    tree = build_tree(forest.records(ROOT))
    assert_true_of(forest, tree)
    (store,) = (node for node in tree.nodes if node.bolt == "store")
    assert len(store.parents) == 1


@given(st.integers(0, 2**32))
def test_a_lane_acks_a_micro_batch_with_one_entry(seed: int) -> None:
    forest = Forest(seed, (ROOT,))
    lines = forest.begin(ROOT, "split", 3)
    words = [forest.emit((line,), "count", 0) for line in lines for _ in range(2)]
    val = 0
    for line in lines:
        val ^= dict(forest.tuples[line].ack_vals())[ROOT]
        forest.tuples[line].acked = True
    forest.add_entry(ROOT, "ack", "split/spark-0", val)
    tree = build_tree(forest.records(ROOT))
    assert {node.bolt for node in tree.having(State.OPEN)} == {"count"}
    assert all(len(node.parents) == 3 for node in tree.nodes if node.bolt == "count")
    assert len(words) == len(tree.having(State.OPEN))


def test_a_tuple_that_was_executed_twice_is_in_the_verdict() -> None:
    """A bolt was killed before its commit, after its ack."""
    forest = Forest(1, (ROOT,))
    (line,) = forest.begin(ROOT, "split", 1)
    children = []
    for _ in range(2):
        forest.tuples[line].out = {}
        children.append(forest.emit((line,), "count", 0))
        forest.ack(line)
    for child in children:
        forest.ack(child)
    tree = build_tree(forest.records(ROOT))
    assert tree.status is Status.OPEN
    assert "all of 3 tuples were acked, but the one at offset 1 of `split` task 0 was executed more" in verdict(tree)


@pytest.mark.parametrize("stray_is_acked", [False, True])
def test_the_tuples_of_an_interrupted_execution_are_in_the_verdict(stray_is_acked: bool) -> None:
    forest = Forest(2, (ROOT,))
    (line,) = forest.begin(ROOT, "split", 1)
    forest.now += 1
    stray = forest.emit((line,), "count", 0)
    forest.tuples[line].out = {}
    forest.now += 1
    child = forest.emit((line,), "count", 0)
    for at in (line, *([stray] if stray_is_acked else []), child):
        forest.ack(at)
    tree = build_tree(forest.records(ROOT))
    assert [node.origin for node in tree.nodes] == [Origin.REPORTED, Origin.UNREPORTED, Origin.REPORTED]
    if stray_is_acked:
        place = f"offset {forest.tuples[stray].offset} of `count` task 0"
        assert tree.status is Status.OPEN
        assert f"{place} comes from an execution that was interrup" in verdict(tree)
    else:
        assert verdict(tree).endswith(
            "all of 2 tuples; 1 more of an interrupted execution are open, and the spout does not wait for them"
        )


@given(st.integers(0, 2**32), st.integers(1, 3), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 0.4))
def test_a_trace_of_incomplete_records_is_never_false(
    seed: int, tasks: int, crashed: float, again: float, lost: float
) -> None:
    """Executions that were interrupted before their ack, inputs executed again after it, records that are gone."""
    choice = random.Random(seed)
    forest = Forest(seed, (ROOT,))
    generation = forest.begin(ROOT, CHAIN[0], choice.randint(1, 2))
    for bolt in (*CHAIN[1:], None):
        following = []
        for at in generation:
            for _ in range(3):
                forest.now += 1
                forest.tuples[at].out = {}
                if bolt is not None and len(forest.tuples) < 40:
                    following += [
                        forest.emit((at,), bolt, choice.randrange(tasks)) for _ in range(choice.randint(0, 2))
                    ]
                if choice.random() < crashed:
                    continue
                forest.ack(at)
                if choice.random() >= again:
                    break
        generation = following
    records = forest.records(ROOT)
    records.nodes = [each for each in records.nodes if choice.random() >= lost]
    tree = build_tree(records)
    for node in tree.nodes:
        grown = grown_at(forest, node)
        assert grown.acked or node.state is not State.ACKED
        assert not grown.acked or node.state is not State.OPEN
        if node.origin is Origin.REPORTED:
            parents = {
                (forest.tuples[at].bolt, forest.tuples[at].task, forest.tuples[at].offset) for at in grown.parents
            }
            assert parents_in(node) <= parents
    if tree.status is Status.ACKED:
        assert all(grown.acked for grown in forest.tuples if grown.edges[ROOT] in created(forest))
    assert verdict(tree)
    assert tree_as_json(tree)["verdict"] == verdict(tree)


def created(forest: Forest) -> set[int]:
    """The edges of the spout's tuples."""
    return {grown.edges[ROOT] for grown in forest.tuples if not grown.parents}


def test_without_a_notice_the_outcome_follows_from_the_order_in_the_log() -> None:
    """The notice may be deleted, or no acker run; entries after the outcome change nothing."""
    forest = Forest(3, (ROOT,))
    (line,) = forest.begin(ROOT, "split", 1)
    forest.ack(line)
    forest.add_entry(ROOT, "fail", "split/0")
    by_kind: dict[str, LogEntry] = {entry.kind: entry for entry in forest.entries[ROOT]}
    for order, status in {
        ("init", "fail", "ack"): Status.FAILED,
        ("fail", "init", "ack"): Status.FAILED,
        ("init", "ack", "fail"): Status.ACKED,
        ("ack", "fail", "init"): Status.ACKED,
    }.items():
        forest.entries[ROOT] = [replace(by_kind[kind], offset=offset) for offset, kind in enumerate(order)]
        tree = build_tree(forest.records(ROOT))
        assert tree.status is status
        assert verdict(tree).startswith("failed, by split/0 (no)" if status is Status.FAILED else "acked after ")
