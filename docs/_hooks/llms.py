"""`llms.txt` and `llms-full.txt` of the site, for language models: a list of the pages, and all of them as one text."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

_CODE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SENTENCE: Final = re.compile(r"(.+?[.:!?])(?= [A-Z`*]|$)")


def write(config: MkDocsConfig, navigation: Navigation) -> None:
    """Writes both files, with the pages in the order of the navigation."""
    head = f"# {config.site_name}\n\n> {config.site_description}\n"
    listed, whole = [head], [head]
    for title, pages in _sections(navigation):
        listed.append(f"## {title}\n")
        for page in pages:
            text = (page.markdown or "").strip()
            listed.append(f"- [{page.title}]({page.url}): {described(text)}")
            whole.append(f"---\n\nPage: {page.url}\n\n{_COMMENT.sub('', text)}\n")
        listed.append("")
    site = Path(config.site_dir)
    (site / "llms.txt").write_text("\n".join(listed), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join(whole), encoding="utf-8")


def described(markdown: str) -> str:
    """The first sentence of a page, without its links and code blocks."""
    for paragraph in _COMMENT.sub("", _CODE.sub("", markdown)).split("\n\n"):
        text = " ".join(_LINK.sub(r"\1", paragraph).replace("**", "").split())
        if text and text[0] not in "#|<-!":
            sentence = _SENTENCE.match(text)
            return sentence[1] if sentence else text
    return ""


def _sections(navigation: Navigation) -> Iterator[tuple[str, list[Page]]]:
    """The sections of the navigation, each with its pages, nested ones included."""
    for item in navigation.items:
        yield item.title or "Pages", [*_pages(item)]


def _pages(item: object) -> Iterator[Page]:
    if isinstance(item, Page):
        yield item
    for child in getattr(item, "children", None) or ():
        yield from _pages(child)
