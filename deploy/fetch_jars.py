"""Fetches the jars of a list, while the image is built: `python fetch_jars.py LIST DIRECTORY [REPOSITORY]`.

Each line of the list is a SHA-256 and a path in the repository; what does not have that sum is refused. Unless told
otherwise, they come from where Ivy, the resolver that Spark brings, fetches them too: its jar says where.
"""

import hashlib
import importlib.util
import re
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import Final

_SECONDS: Final = 60
_IVY_RESOLVER: Final = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_ADDRESS: Final = re.compile(rb"https://[a-z0-9./-]+/maven2/")


def listed(text: str) -> dict[str, str]:
    """Path → SHA-256 of each line that is not a comment."""
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


def default_repository() -> str:
    """The address of Maven Central, as PySpark's Ivy has it.

    Raises:
        LookupError: if PySpark is not installed, or its Ivy says no address.
    """
    pyspark = importlib.util.find_spec("pyspark")
    jars = sorted(Path(pyspark.origin).parent.glob("jars/ivy-*.jar")) if pyspark and pyspark.origin else []
    for jar in jars:
        with zipfile.ZipFile(jar) as ivy:
            found = _ADDRESS.search(ivy.read(_IVY_RESOLVER))
        if found:
            return found.group().decode()
    raise LookupError("PySpark's Ivy names no repository here: give its address as third argument")


def main(arguments: list[str]) -> None:
    """Fetches all of them."""
    jars, directory = listed(Path(arguments[0]).read_text()), Path(arguments[1])
    repository = arguments[2] if arguments[2:] and arguments[2] else default_repository()
    for path, checksum in jars.items():
        (directory / Path(path).name).write_bytes(fetch(repository, path, checksum))


if __name__ == "__main__":
    main(sys.argv[1:])
