"""The contract: what every world in which a topology runs must do."""

from tests.contract.outcomes import Outcomes
from tests.contract.records import Records


class Contract(Records, Outcomes):
    """To be derived from, with a fixture `world`."""
