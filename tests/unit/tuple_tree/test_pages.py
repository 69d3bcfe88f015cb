"""The addresses of pages that errors and findings name."""

import re
from collections.abc import Iterator
from email.message import Message

import pytest

from tests.pages import ROOT
from tuple_tree import pages

PACKAGES = ("tuple_tree", "kafka_clients", "acker_worker", "spout_sdk", "spark_jobs", "inspection", "acker_cli")
NAMED = re.compile(r'"((?!docs/|/)[a-z\d_/-]+\.md)(#[\w-]+)?"')


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    pages._site.cache_clear()
    yield
    pages._site.cache_clear()


@pytest.mark.parametrize(
    ("documentation", "address"),
    [
        (
            "https://code.example/acker/blob/v0.2.0/docs/index.md",
            "https://code.example/acker/blob/v0.2.0/docs/alerts.md#x",
        ),
        ("https://acker.example/docs/index.html", "https://acker.example/docs/alerts.html#x"),
        (None, "docs/alerts.md#x"),
    ],
)
def test_an_installed_package_has_addresses(
    monkeypatch: pytest.MonkeyPatch, documentation: str | None, address: str
) -> None:
    metadata = Message()
    metadata["Project-URL"] = "Source, https://code.example/acker"
    if documentation is not None:
        metadata["Project-URL"] = f"Documentation, {documentation}"
    monkeypatch.setattr(pages, "metadata", lambda _name: metadata)
    assert pages.page("alerts.md#x") == address


def test_the_pages_that_the_code_names_exist() -> None:
    found = {
        match.groups()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for match in NAMED.finditer(path.read_text())
    }
    assert ("alerts.md", "#nothingprogresses") in found
    for name, heading in found:
        text = (ROOT / "docs" / name).read_text().lower()
        assert heading is None or f"\n## {heading.removeprefix('#').replace('-', ' ')}\n" in text
