"""Input batches against a model: a dict of roots and edges, and the XOR of what is joined."""

import random
from collections import defaultdict

import numpy as np

from tests.seeds import each_seed
from tuple_tree.input_batch import InputBatch


def column(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


def _check(seed: int) -> None:
    chance = random.Random(seed)
    batch, inputs, children = InputBatch(), list[tuple[int, int]](), defaultdict[int, int](int)
    for _ in range(60):
        places = chance.choices(range(len(inputs)), k=chance.choice((1, 5, 100))) if inputs else []
        match chance.randrange(4):
            case 0:
                pairs = [(chance.getrandbits(64), chance.getrandbits(64)) for _ in range(chance.choice((0, 1, 7, 40)))]
                first = batch.add(column([root for root, _ in pairs]), column([edge for _, edge in pairs]))
                assert first == len(inputs)
                inputs += pairs
            case 1:
                inputs.append((chance.getrandbits(64), 0))
                assert batch.begin(inputs[-1][0]) == len(inputs) - 1
            case 2 if places:
                edges = [chance.getrandbits(64) for _ in places]
                batch.join(places, column(edges))
                for place, edge in zip(places, edges, strict=True):
                    children[place] ^= edge
            case 3 if places:
                some = [place for place in dict.fromkeys(places) if not inputs[place][1]]
                edges = [chance.getrandbits(64) for _ in some]
                vals = batch.begin_open(some, column(edges)).tolist()
                assert vals == [edge ^ children[place] for place, edge in zip(some, edges, strict=True)]
                for place, val in zip(some, vals, strict=True):
                    inputs[place] = inputs[place][0], val
        assert list(zip(batch.roots.tolist(), batch.edges.tolist(), strict=True)) == inputs
        vals = [edge ^ children[place] for place, (_, edge) in enumerate(inputs)]
        assert (batch.size, batch.vals(range(len(inputs))).tolist()) == (len(inputs), vals)


def test_vals_are_the_edge_of_the_input_and_those_of_its_children() -> None:
    each_seed(_check)


def test_what_another_thread_has_read_stays_where_it_was() -> None:
    """A batch grows while coroutines of an `AsyncBolt` read the roots of their inputs."""
    batch = InputBatch()
    place = batch.add(column([7]), column([8]))
    roots = batch.roots
    for number in range(1_000):
        batch.add(column([number]), column([number]))
    assert (roots[place], batch.roots[place], batch.edges[place]) == (7, 7, 8)
