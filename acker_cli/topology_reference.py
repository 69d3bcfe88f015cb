"""The topology that a command is given as `MODULE:TOPOLOGY`."""

import os
import sys
from typing import TYPE_CHECKING

from acker_cli.errors import CliError

if TYPE_CHECKING:
    from spout_sdk import Topology


def load_from_here(reference: str) -> "Topology":
    """Imports a topology; modules in the working directory are found first, here and in child processes.

    Raises:
        TopologyError: if the reference leads to no topology.
        CliError: if it leads to a function that raises.
    """
    from spout_sdk import SpoutSdkError, load_topology

    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return load_topology(reference)
    except SpoutSdkError:
        raise
    except Exception as error:  # whatever a user's function raises
        raise CliError(
            f"{reference!r} raised {type(error).__name__}: {error}; "
            "name a Topology, or a function without arguments that returns one"
        ) from error
