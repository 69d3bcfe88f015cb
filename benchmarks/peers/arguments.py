"""The command line of the peers, of which none imports anything of ours."""

import argparse


def given() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("servers", "source", "sink", "group"):
        parser.add_argument(name)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--words", metavar="DIRECTORY")
    arguments = parser.parse_args()
    # The word count is always tuned.
    arguments.tuned |= bool(arguments.words)
    return arguments
