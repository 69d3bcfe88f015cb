"""Hooks of MkDocs, which `mkdocs.yml` lists.

`outside` makes pages of files outside of `docs/` that are linked from it; the other modules make the reference of the
code of this checkout. They run when the site is built, so it cannot become outdated.
"""

import sys
from pathlib import Path
from typing import Any

import checks
import commands
import docstrings
import fields
import metrics
import outside
import settings
import wire
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

# The reference is that of this checkout, whichever one is installed.
sys.path.insert(0, str(outside.ROOT))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lets the navigation name pages by a pattern, such as `adr/*.md`: in the order of their names."""
    config.nav = _spelled_out(config.nav, Path(config.docs_dir))
    return config


def _spelled_out(nav: Any, docs: Path) -> Any:
    if isinstance(nav, dict):
        return {title: _spelled_out(entry, docs) for title, entry in nav.items()}
    if not isinstance(nav, list):
        return nav
    spelled: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and "*" in entry:
            spelled += sorted(path.relative_to(docs).as_posix() for path in docs.glob(entry))
        else:
            spelled.append(_spelled_out(entry, docs))
    return spelled


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside of `docs/` that a page links."""
    for added in outside.pages(files, config):
        files.append(added)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Fills in the reference, and leads links out of `docs/` to the pages that were made of what they link."""
    if page.file.src_uri.startswith("reference/"):
        markdown = docstrings.filled_in(markdown, page.file.src_uri)
    for made in (checks, commands, fields, metrics, settings, wire):
        markdown = made.filled_in(markdown)
    return outside.relinked(markdown, page.file.src_uri)
