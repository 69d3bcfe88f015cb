"""Where the demo's tasks keep their files."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acker_cli.errors import DemoError


@contextmanager
def demo_directory(keep: Path | None) -> Iterator[Path]:
    """A directory that is gone afterwards, unless it is to be kept.

    Args:
        keep: where; it must be new or empty, because counts of another run would be counted again.

    Raises:
        DemoError: if it is not.
    """
    if keep is None:
        # Should a process be killed in the end only after its time, it may still write while this is removed.
        with tempfile.TemporaryDirectory(prefix="acker-demo-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise DemoError(f"{keep} is there already and is not an empty directory: name another one with --keep")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.absolute()
