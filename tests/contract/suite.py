"""The contract of every world in which a topology runs."""

from tests.contract.outcomes import Outcomes, SlowOutcomes
from tests.contract.records import Records


class Contract(Records, Outcomes, SlowOutcomes):
    """All of it; to be derived from, like each of its parts, with a fixture `world`."""
