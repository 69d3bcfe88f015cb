"""The page of the package: README.md, and the project's links, for a package index.

A build with `REPOSITORY_URL`, such as that of a release, makes the links and pictures of README.md absolute, in
that repository at the tag of the version. It also adds the project's links. The link of the documentation, by which
errors and findings name pages, is that of its site if `SITE_URL` is set, else that of its pages in the repository. Any
other build has README.md as it is.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(?<=\]\()(?!\w+:|#)")
_PICTURE = re.compile(r"(!\[[^\]]*\]\()(?!\w+:)")


class PageOfThePackage(MetadataHookInterface):
    """Sets `readme` and `urls`, which are dynamic in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        if repository := os.environ.get("REPOSITORY_URL"):
            at_tag, site = f"v{metadata['version']}", os.environ.get("SITE_URL")
            text = _PICTURE.sub(rf"\1{repository}/raw/{at_tag}/", text)
            text = _RELATIVE.sub(f"{repository}/blob/{at_tag}/", text)
            metadata["urls"] = {
                "Documentation": f"{site}/index.html" if site else f"{repository}/blob/{at_tag}/docs/index.md",
                "Source": repository,
                "Changelog": f"{repository}/blob/{at_tag}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
