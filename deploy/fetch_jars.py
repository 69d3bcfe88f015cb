"""Fetches the jars of a list, while the image is built: `python fetch_jars.py LIST DIRECTORY [REPOSITORY]`.

Each line of the list is a SHA-256 and a path in the repository; what does not have that sum is refused.
"""

import hashlib
import sys
import urllib.request
from pathlib import Path
from typing import Final

MAVEN_CENTRAL: Final = "https://repo1.maven.org/maven2"
_SECONDS: Final = 60


def listed(text: str) -> dict[str, str]:
    """Path → SHA-256 of each line that is no comment."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {path: checksum for checksum, path in rows}


def fetch(repository: str, path: str, checksum: str) -> bytes:
    """The jar at this path.

    Raises:
        ValueError: if it is another one than was listed.
        OSError: if it cannot be fetched.
    """
    with urllib.request.urlopen(f"{repository.rstrip('/')}/{path}", timeout=_SECONDS) as answer:  # noqa: S310
        jar: bytes = answer.read()
    found = hashlib.sha256(jar).hexdigest()
    if found != checksum:
        raise ValueError(f"{path} has SHA-256 {found}, not {checksum}: correct the list, or mistrust the repository")
    return jar


def main(arguments: list[str]) -> None:
    """Fetches all of them."""
    jars, directory = listed(Path(arguments[0]).read_text()), Path(arguments[1])
    repository = arguments[2] if arguments[2:] and arguments[2] else MAVEN_CENTRAL
    for path, checksum in jars.items():
        (directory / Path(path).name).write_bytes(fetch(repository, path, checksum))


if __name__ == "__main__":
    main(sys.argv[1:])
