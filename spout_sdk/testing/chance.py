"""Simulated time, and random choices that repeat with a seed."""

import hashlib
import random
from typing import Final

EPOCH_MS: Final = 1_700_000_000_000
"""The broker's time at the beginning, in milliseconds since 1970."""


class SimulatedClock:
    """A clock that moves only when it is set; in whole milliseconds, as in Kafka, so that no time is rounded twice."""

    __slots__ = ("elapsed_ms",)

    def __init__(self) -> None:
        self.elapsed_ms = 0

    def __call__(self) -> float:
        """Seconds since the beginning; tasks use this as their clock."""
        return self.elapsed_ms / 1000

    @property
    def broker_ms(self) -> int:
        return EPOCH_MS + self.elapsed_ms


class SeededEntropy:
    """Random bytes for ids, which repeat with the seed.

    It does not use `random.Random`, whose generator is linear over GF(2): fixed sets of its outputs XOR to zero, which
    must not happen with edge ids.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._draws = 0

    def __call__(self, count: int) -> bytes:
        self._draws += 1
        return hashlib.shake_128(f"{self._seed}/{self._draws}".encode()).digest(count)


class Chance:
    """The random choices of a simulation, which repeat with the seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)  # noqa: S311 - no secret, only an order
        self._sources = 0

    def entropy(self) -> SeededEntropy:
        self._sources += 1
        return SeededEntropy(f"{self._seed}/{self._sources}")

    def order(self, count: int) -> list[int]:
        order = list(range(count))
        self._random.shuffle(order)
        return order

    def up_to(self, most: int) -> int:
        return 1 + int(self._random.random() * most)
