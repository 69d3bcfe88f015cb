"""The command line of the peers, which import nothing of ours."""

import argparse
from typing import Final

COUNTRIES: Final = {user: f"country-{user % 40}" for user in range(1_000)}
"""User → country, for the clicks of the pipeline."""


def given() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("servers", "source", "sink", "group"):
        parser.add_argument(name)
    work = parser.add_mutually_exclusive_group(required=True)
    work.add_argument("--words", metavar="DIRECTORY")
    work.add_argument("--clicks", metavar="DIRECTORY")
    parser.add_argument("--msgspec", action="store_true", help="JSON by msgspec instead of the standard library")
    return parser.parse_args()
