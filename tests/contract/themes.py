"""All scenarios, by theme."""

from tests.contract.crashes import CRASHES
from tests.contract.drains import DRAINS
from tests.contract.failures import FAILURES
from tests.contract.joins import JOINS
from tests.contract.plain import PLAIN
from tests.contract.scenario import Scenario
from tests.contract.states import STATES
from tests.contract.windows import WINDOWS
from tests.contract.writes import WRITES

THEMES: dict[str, list[Scenario]] = {
    "plain": PLAIN,
    "joins": JOINS,
    "failures": FAILURES,
    "crashes": CRASHES,
    "states": STATES,
    "windows": WINDOWS,
    "writes": WRITES,
    "drains": DRAINS,
}
SCENARIOS = {f"{theme}: {scenario.name}": scenario for theme, of in THEMES.items() for scenario in of}
