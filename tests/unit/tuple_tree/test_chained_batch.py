"""Compares chained batches with a model that has the head input of each chained input."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from tests.seeds import each_seed
from tuple_tree.chained_batch import ChainedBatch
from tuple_tree.identities import IdentityColumns
from tuple_tree.input_batch import InputBatch

At = tuple[InputBatch, int]


def column(values: Iterable[int]) -> np.ndarray:
    return np.array([*values], np.uint64)


def _check(seed: int) -> None:
    chance = random.Random(seed)

    def ids(size: int, bits: int = 64) -> np.ndarray:
        return column(chance.getrandbits(bits) for _ in range(size))

    heads = dict[InputBatch, list[At]]()
    for _ in range(chance.randint(1, 3)):
        batch, size = InputBatch(), chance.choice((1, 7, 100))
        batch.add(ids(size), ids(size))
        heads[batch] = [(batch, place) for place in range(size)]
    goes_back = dict(heads)  # batch: the head input of each place
    children, is_open = defaultdict[At, int](int), Counter[At]()
    for _ in range(30):
        batch = chance.choice(list(goes_back))
        places = chance.choices(range(len(goes_back[batch])), k=chance.choice((1, 5, 60)))
        at = [goes_back[batch][place] for place in places]
        match chance.randrange(3):
            case 0:
                runs = [(batch, np.array(places, np.intp))]
                for other in chance.sample(list(goes_back), chance.randint(0, 2) if len(goes_back) > 1 else 0):
                    more = chance.choices(range(len(goes_back[other])), k=chance.randint(1, 9))
                    runs.append((other, np.array(more, np.intp)))
                    at = at + [goes_back[other][place] for place in more]
                numbers = ids(len(at), 60)
                is_identified = chance.random() < 0.5
                made = ChainedBatch(runs, identities=IdentityColumns(numbers, numbers) if is_identified else None)
                goes_back[made] = at
                assert made.size == len(at)
                if is_identified:
                    assert (made.positions == numbers).all()
                    assert (made.paths == numbers).all()
            case 1:
                edges = ids(len(places))
                batch.join(places, edges)
                for each, edge in zip(at, edges.tolist(), strict=True):
                    children[each] ^= edge
            case 2:
                change = chance.choice((1, -1))
                batch.count_open(places, change)
                for each in at:
                    is_open[each] += change
    for batch, at in goes_back.items():
        found = batch.has_open(range(len(at)))
        assert (found if found is not None else np.zeros(len(at))).tolist() == [is_open[each] != 0 for each in at]
        assert [batch.head(place) for place in range(len(at))] == at
        assert batch.roots.tolist() == [int(head.roots[place]) for head, place in at]
    for head, at in heads.items():
        every = range(head.size)
        found = head.has_open(every)
        assert (found if found is not None else np.zeros(head.size)).tolist() == [is_open[each] != 0 for each in at]
        assert head.children(every).tolist() == [children[each] for each in at]


def test_what_is_done_to_a_chained_input_is_done_to_its_head_input() -> None:
    each_seed(_check)
