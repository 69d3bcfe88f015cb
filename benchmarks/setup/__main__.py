"""Fetches the peers into `.bench`, all of them or those that are named; what is there already stays.

python -m benchmarks.setup              # all, as `make bench-setup` does
python -m benchmarks.setup storm plots
"""

import argparse
import sys
from typing import Final

from benchmarks.errors import NotSetUpError
from benchmarks.setup import plots, python_peers, storm
from benchmarks.setup.peers import Peer

PEERS: Final[tuple[Peer, ...]] = (plots.PEER, *python_peers.PEERS, storm.PEER)


def main() -> None:
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.setup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", nargs="*", help=f"{', '.join(names)}; all if none is named")
    given = parser.parse_args()
    if unknown := [name for name in given.peer if name not in names]:
        parser.error(f"there is no peer {unknown[0]!r}: the peers are {', '.join(names)}")
    for peer in PEERS:
        if given.peer and peer.name not in given.peer:
            continue
        print(f"{peer.name} …", flush=True)
        try:
            peer.fetch()
        except NotSetUpError as error:
            sys.exit(f"{peer.name}: {error}")


if __name__ == "__main__":
    main()
