"""Downloads jars from a Maven repository: `python maven.py LIST DIRECTORY [REPOSITORY]`.

Each line of a list is a SHA-256 and a path in the repository; a file with another sum is refused. Unless another
repository is given, the jars come from Maven Central, whose address the package `maven-artifact` knows. The image of
Spark runs this file alone, before the package is installed there.
"""

import hashlib
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from http.client import HTTPException
from pathlib import Path
from threading import Event
from typing import Final

_SECONDS: Final = 30
_AT_A_TIME: Final = 8
_CHUNK: Final = 1 << 16


def listed(text: str) -> dict[str, str]:
    """Path → SHA-256 of each line that is not a comment."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {path: checksum for checksum, path in rows}


def central() -> str:
    """The address of Maven Central; `ModuleNotFoundError` if `maven-artifact` is not installed."""
    from maven_artifact import Downloader

    return str(Downloader().resolver.base)


def download(jars: Mapping[str, str], directory: Path, repository: str) -> Iterator[str]:
    """Downloads jars (path → SHA-256) into a directory, several at a time; yields the path of each when it is there.

    Raises:
        ValueError: if a jar is another one than was listed.
        OSError: if one cannot be downloaded or stored; the message names its address.
    """
    root, stopped = repository.rstrip("/"), Event()
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="download") as pool:
        running = {
            pool.submit(_download, f"{root}/{path}", directory / Path(path).name, checksum, stopped): path
            for path, checksum in jars.items()
        }
        try:
            for each in as_completed(running):
                each.result()
                yield running[each]
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _download(address: str, target: Path, checksum: str, stopped: Event) -> None:
    found = hashlib.sha256()
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer, target.open("wb") as file:  # noqa: S310
            while not stopped.is_set() and (chunk := answer.read(_CHUNK)):
                found.update(chunk)
                file.write(chunk)
    except (OSError, HTTPException) as error:
        raise OSError(f"{address}: {error}") from error
    if found.hexdigest() != checksum and not stopped.is_set():
        raise ValueError(
            f"{address} has SHA-256 {found.hexdigest()}, not {checksum}: try again, or use another repository"
        )


def main(arguments: list[str]) -> None:
    """Downloads all of them."""
    jars, directory = listed(Path(arguments[0]).read_text()), Path(arguments[1])
    for _ in download(jars, directory, arguments[2] if arguments[2:] and arguments[2] else central()):
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
