"""The metadata that stands beside a committed offset: a version, a name, and what was committed under it."""

from typing import Final

from spout_sdk.errors import UnsupportedVersionError

_VERSION: Final = "1"


def commit_metadata(name: str, text: str) -> str:
    """What is committed beside an offset; Kafka takes 4,096 bytes."""
    return f"{_VERSION}:{name}={text}"


def read_commit_metadata(name: str, offset: int, metadata: str | None) -> str | None:
    """The text that was committed under a name; None where another program has committed."""
    version, _, named = (metadata or "").partition(":")
    text = named.removeprefix(f"{name}=")
    if text == named:
        return None
    if version != _VERSION:
        raise UnsupportedVersionError(
            f"the commit at offset {offset} has metadata of version {version}, and this component reads version "
            f"{_VERSION}: run the version that committed it, or a later one"
        )
    return text
