"""matplotlib, for the report's plots, in an environment of its own."""

from typing import Final

from benchmarks.setup.environments import Environment
from benchmarks.setup.peers import Peer

ENVIRONMENT: Final = Environment("plots", "matplotlib")
PEER: Final = Peer(ENVIRONMENT.name, ENVIRONMENT.fetch)
