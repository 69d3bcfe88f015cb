"""Seeds of random tests: one in a plain run, thirty in an exhaustive one, fresh each time."""

import os
import random
from collections.abc import Callable


def each_seed(check: Callable[[int], None]) -> None:
    """Calls a check with new seeds, and adds the seed to its exception; `ACKER_TEST_SEED=N` repeats one."""
    repeated = os.environ.get("ACKER_TEST_SEED")
    for _ in range(1 if repeated else int(os.environ["ACKER_TEST_SEEDS"])):
        seed = int(repeated) if repeated else random.SystemRandom().getrandbits(32)
        try:
            check(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: ACKER_TEST_SEED={seed} repeats it")
            raise
