"""Free ports on the loopback interface."""

import random
import socket
from collections.abc import Iterable

HOST = "127.0.0.1"
# Below what Linux (32768) and macOS (49152) hand out to outgoing connections, so that while the broker is down between
# a kill and a restart no connection takes its port.
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Java does: connections of an earlier broker that linger in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(taken: Iterable[int] = ()) -> int:
    """Choose a free port at random, none of those `taken`. Raises `OSError` if none of a hundred was free."""
    excluded = set(taken)
    for port in random.SystemRandom().sample(_RANGE, 100):
        if port not in excluded and is_free(port):
            return port
    raise OSError(f"no free port found between {_RANGE.start} and {_RANGE.stop} on {HOST}")
