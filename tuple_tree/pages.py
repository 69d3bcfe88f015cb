"""The addresses of pages of the documentation, for errors and findings."""

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final

_PACKAGE: Final = "kafka-acker"
_FIRST_PAGE: Final = ("/index.md", "/index.html")


def page(path: str) -> str:
    """Where to read a page.

    Args:
        path: the page in `docs/`, with a heading if one is meant, such as `alerts.md#nothingprogresses`.

    Returns:
        Its address, if the metadata of the installed package has that of the documentation; else the path in a
        checkout.
    """
    name, _, heading = path.partition("#")
    site, ending = _site()
    return f"{site}/{name.removesuffix('.md')}{ending}{'#' if heading else ''}{heading}"


@cache
def _site() -> tuple[str, str]:
    """The address of the documentation, and how its pages end."""
    try:
        urls = metadata(_PACKAGE).get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    address = dict(url.split(", ", 1) for url in urls).get("Documentation", "")
    for first in _FIRST_PAGE:
        if address.endswith(first):
            return address.removesuffix(first), first.removeprefix("/index")
    return "docs", ".md"
