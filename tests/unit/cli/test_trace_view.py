"""Tuple trees as they are drawn."""

import io

from rich.console import Console

from acker_cli.views.trace import print_trees
from inspection.trace.tree import Tree, build_tree
from tests.unit.inspection.forest import ROOT, Forest


def drawn(tree: Tree) -> list[str]:
    out = io.StringIO()
    print_trees(Console(file=out), "word-count", [tree])
    return out.getvalue().splitlines()


def test_of_many_children_the_open_ones_are_drawn_first() -> None:
    forest = Forest(2, (ROOT,))
    (line,) = forest.begin(ROOT, "split", 1)
    words = [forest.emit((line,), "count", 0) for _ in range(200)]
    stuck = words.pop(150)
    for word in (line, *words):
        forest.ack(word)
    text = "\n".join(drawn(build_tree(forest.records(ROOT))))
    assert f"count/0@{forest.tuples[stuck].offset} " in text
    assert "… and 180 more, all acked" in text


def test_a_chain_longer_than_the_recursion_limit_is_drawn() -> None:
    forest = Forest(2, (ROOT,))
    (at,) = forest.begin(ROOT, "loop", 1)
    for _ in range(1_200):
        forest.now += 1
        following = forest.emit((at,), "loop", 0)
        forest.ack(at)
        at = following
    lines = drawn(build_tree(forest.records(ROOT)))
    assert f"offset {forest.tuples[0].offset} " in lines[1]
    assert lines[-1].startswith("open: 1 of 1,201 tuples, `loop` task 0 has not acked offset ")
