"""Modules in archives, as executors import PySpark: the directory of an archive is read when the archive has changed.

PySpark invalidates the import caches of a worker before each task. Up to Python 3.11 that reads the whole directory of
`pyspark.zip` again, once for each of its packages: 0.5 s of CPU time for each task. Python 3.12 reads it when it next
looks for a module (CPython issue 103200).
"""

import os
import sys
from zipimport import zipimporter

_read: dict[zipimporter, tuple[int, int] | None] = {}
"""The time of change and the bytes of each finder's archive when it was read."""

_invalidate_caches = zipimporter.invalidate_caches


def read_changed_archives_only() -> None:
    """Makes `importlib.invalidate_caches` leave archives alone that have not changed since they were read."""
    if sys.version_info < (3, 12):
        finders = [each for each in sys.path_importer_cache.values() if isinstance(each, zipimporter)]
        _read.update({finder: _stamp(finder) for finder in finders})
        zipimporter.invalidate_caches = _invalidate_if_changed  # type: ignore[assignment, method-assign]


def _invalidate_if_changed(finder: zipimporter) -> None:
    stamp = _stamp(finder)
    if stamp is None or _read.get(finder) != stamp:
        _invalidate_caches(finder)
        _read[finder] = stamp


def _stamp(finder: zipimporter) -> tuple[int, int] | None:
    try:
        status = os.stat(finder.archive)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
