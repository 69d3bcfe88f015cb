"""`python -m acker_cli` is `acker`: how child processes are started, whatever is on the PATH."""

from acker_cli.app import main

if __name__ == "__main__":
    main()
