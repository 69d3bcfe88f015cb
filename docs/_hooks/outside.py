"""Pages of the site for files of the repository that lie outside of `docs/`.

A page of the documentation links code as any viewer of the repository understands it: `../examples/orders.py`. In the
site there is no such file, so each file that is linked becomes a page under `source/`, and the link leads there. Links
to what does not exist are left alone, and fail the strict build as any broken link.
"""

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = "source/"

_DOCS: Final = "docs/"
_FENCE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_EXTERNAL: Final = re.compile(r"[a-z]+:|/")
_LISTED: Final = {".py", ".md", ".yml", ".toml", ".avsc"}


def pages(files: Files, config: MkDocsConfig) -> Iterator[File]:
    """A page for each file or directory outside of `docs/` that is linked, also from such a page."""
    made: set[str] = set()
    waiting = [target for file in files.documentation_pages() for target in _targets(_text(file), file.src_uri)]
    while waiting:
        path = waiting.pop()
        if path.startswith(_DOCS) or path in made or not (ROOT / path).exists():
            continue
        made.add(path)
        uri, content = _uri(path), _content(path)
        waiting += _targets(content, uri)
        yield File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV)


def relinked(markdown: str, uri: str) -> str:
    """The markdown of a page with its links to the repository led to pages of the site."""

    def led(found: re.Match[str]) -> str:
        path = _repository_path(found[2], uri)
        if path is None or not (ROOT / path).exists():
            return found[0]
        to = posixpath.relpath(_uri(path), posixpath.dirname(uri) or ".")
        return f"{found[1]}{to}{found[3] or ''}{found[4]}"

    return "".join(part if code else _LINK.sub(led, part) for part, code in _parts(markdown))


def _parts(markdown: str) -> Iterator[tuple[str, bool]]:
    """The text between fenced blocks, and the blocks, with whether it is one."""
    begin = 0
    for fence in _FENCE.finditer(markdown):
        yield markdown[begin : fence.start()], False
        yield fence[0], True
        begin = fence.end()
    yield markdown[begin:], False


def _targets(markdown: str, uri: str) -> list[str]:
    texts = (part for part, code in _parts(markdown) if not code)
    found = (_repository_path(link[2], uri) for text in texts for link in _LINK.finditer(text))
    return [path for path in found if path is not None]


def _repository_path(link: str, uri: str) -> str | None:
    """Where in the repository a link of a page leads; None if that is for MkDocs to say."""
    if _EXTERNAL.match(link):
        return None
    inside = not uri.startswith(SOURCE)
    here = _DOCS + uri if inside else uri.removeprefix(SOURCE)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
    return None if path.startswith("..") or (inside and path.startswith(_DOCS)) else path


def _uri(path: str) -> str:
    """The page that a path of the repository becomes."""
    if path.startswith(_DOCS):
        return path.removeprefix(_DOCS)
    if (ROOT / path).is_dir():
        return f"{SOURCE}{path}/files-of-it.md"
    return SOURCE + path if path.endswith(".md") else f"{SOURCE}{path}.md"


def _text(file: File) -> str:
    return file.content_string


def _content(path: str) -> str:
    whole = ROOT / path
    if whole.is_dir():
        entries = sorted(
            each for each in whole.rglob("*") if each.suffix in _LISTED and "__pycache__" not in each.parts
        )
        names = [each.relative_to(whole).as_posix() for each in entries]
        return _page(path, "\n".join(f"- [`{name}`]({posixpath.relpath(name)})" for name in names))
    text = whole.read_text()
    return text if path.endswith(".md") else _page(path, _highlighted(path, text))


def _page(path: str, body: str) -> str:
    return f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n{body}\n"


def _highlighted(path: str, text: str) -> str:
    """The text as HTML, in which each class and function of Python can be linked by its name."""
    try:
        lexer = get_lexer_for_filename(path, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    names = dict(_definitions(path, text))
    lines = enumerate(highlight(text, lexer, HtmlFormatter(nowrap=True)).splitlines(), 1)
    # A line of code is an element, as in the blocks of pages: their style asks for that.
    body = "".join(
        f'<span id="{names[number]}">{line}\n</span>' if number in names else f"<span>{line}\n</span>"
        for number, line in lines
    )
    return f'<div class="highlight"><pre><code>{body}</code></pre></div>'


def _definitions(path: str, text: str) -> list[tuple[int, str]]:
    if not path.endswith(".py"):
        return []
    seen: dict[str, int] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            seen.setdefault(node.name, node.lineno)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            seen.setdefault(node.targets[0].id, node.lineno)
    return [(line, name) for name, line in seen.items()]
