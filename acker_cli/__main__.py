"""`acker`, and `python -m acker_cli`: how child processes are started, whatever is on the PATH."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    # Ctrl-C may come while the commands are imported, before there is a handler for it.
    try:
        from acker_cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
