"""The command line of the peers, of which none imports anything of ours."""

import argparse
from typing import Final

COUNTRIES: Final = {user: f"country-{user % 40}" for user in range(1_000)}
"""User → country, for the clicks of the pipeline."""


def given() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("servers", "source", "sink", "group"):
        parser.add_argument(name)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--words", metavar="DIRECTORY")
    parser.add_argument("--clicks", metavar="DIRECTORY")
    arguments = parser.parse_args()
    # The word count and the pipeline are always tuned.
    arguments.tuned |= bool(arguments.words or arguments.clicks)
    return arguments
