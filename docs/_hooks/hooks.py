"""Hooks of MkDocs, which `mkdocs.yml` lists.

`outside` makes pages of files outside of `docs/` that are linked from it; `llms` writes the pages as text; `reference`
and the other modules make the reference of the code of this checkout.
"""

from pathlib import Path
from typing import Any

import llms
import outside
import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

_navigations: list[Navigation] = []


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


def on_nav(nav: Navigation, **_: Any) -> None:
    """Keeps the navigation for `llms.txt`."""
    _navigations[:] = [nav]


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Leads links out of `docs/` to the pages that were made of their targets; ends the build if a page is outdated."""
    uri = page.file.src_uri
    if not uri.startswith(outside.SOURCE) and reference.up_to_date(markdown, uri) != markdown:
        raise PluginError(f"docs/{uri} is not that of the code: run make reference")
    return outside.relinked(markdown, uri)


def on_post_build(config: MkDocsConfig) -> None:
    """Writes `llms.txt` and `llms-full.txt`."""
    llms.write(config, *_navigations)
