"""The rotating map against a naive model that counts the rotations since each put."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tuple_tree.rotating_map import RotatingMap

_KEYS = st.integers(0, 9)
_VALUES = st.integers(0, 99)


class RotatingMapMachine(RuleBasedStateMachine):
    @initialize(buckets=st.integers(2, 5))
    def begin(self, buckets: int) -> None:
        self.buckets = buckets
        self.called: list[tuple[int, int]] = []
        self.map: RotatingMap[int, int] = RotatingMap(buckets, lambda key, value: self.called.append((key, value)))
        # Value and rotations since the last put; a put moves the key to the end.
        self.model: dict[int, tuple[int, int]] = {}

    @rule(key=_KEYS, value=_VALUES)
    def put(self, key: int, value: int) -> None:
        self.map.put(key, value)
        self.model.pop(key, None)
        self.model[key] = (value, 0)

    @rule(key=_KEYS, value=_VALUES)
    def add(self, key: int, value: int) -> None:
        assert self.map.add(key, value) == (key not in self.model)
        self.model.setdefault(key, (value, 0))

    @rule(key=_KEYS)
    def get_does_not_move(self, key: int) -> None:
        known = self.model.get(key)
        assert self.map.get(key) == (None if known is None else known[0])

    @rule(key=_KEYS)
    def remove(self, key: int) -> None:
        known = self.model.pop(key, None)
        assert self.map.remove(key) == (None if known is None else known[0])

    @rule()
    def rotate(self) -> None:
        aged = {key: (value, rotations + 1) for key, (value, rotations) in self.model.items()}
        dropped = [(key, value) for key, (value, rotations) in aged.items() if rotations == self.buckets]
        self.model = {key: entry for key, entry in aged.items() if entry[1] < self.buckets}
        self.called.clear()
        assert list(self.map.rotate().items()) == dropped
        assert self.called == dropped

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "map"):
            return
        assert len(self.map) == len(self.model)
        assert sorted(self.map) == sorted(self.model)
        for key in range(10):
            assert (key in self.map) == (key in self.model)


TestRotatingMap = RotatingMapMachine.TestCase


def test_the_callback_may_put_back() -> None:
    map_: RotatingMap[str, int] = RotatingMap(2, lambda key, value: map_.put(key, value + 1))
    map_.put("a", 1)
    map_.rotate()
    assert map_.rotate() == {"a": 1}
    assert (map_.get("a"), len(map_)) == (2, 1)
