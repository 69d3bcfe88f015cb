"""The Python frameworks that topologies and the word count are compared with, each in an environment of its own."""

from typing import Final

from benchmarks.setup.environments import Environment
from benchmarks.setup.peers import Peer

FRAMEWORKS: Final = {
    environment.name: environment
    for environment in (
        Environment("quixstreams", "quixstreams"),
        Environment("bytewax", "bytewax"),
        Environment("pystorm", "pystorm"),
    )
}
"""By name."""

PEERS: Final = tuple(Peer(environment.name, environment.fetch) for environment in FRAMEWORKS.values())


def versions(framework: str) -> dict[str, str]:
    """What the results quote of a framework: its own version, and that of its Kafka client.

    Raises:
        NotSetUpError: if it was not fetched.
    """
    environment = FRAMEWORKS[framework]
    found = environment.versions()
    clients = [name for name in ("confluent-kafka", "aiokafka") if name in found]
    return {
        environment.package: found[environment.package],
        **{f"{client} of {environment.package}": found[client] for client in clients},
    }
