"""Debian's Chromium, driven by Playwright; `.ci/chromium` installs it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

CHROMIUM: Final = "ACKER_TEST_CHROMIUM"
"""The environment variable with the path of another Chromium."""
_ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The tests record requests of a page to other machines, which fail.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    path = os.environ.get(CHROMIUM) or shutil.which("chromium")
    if path is None:
        raise RuntimeError(f"no Chromium here: run .ci/chromium, or set {CHROMIUM} to where one is")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_ARGUMENTS])
        try:
            yield browser
        finally:
            browser.close()
