"""A Python worker of Spark, with a shorter start of its tasks.

PySpark collects garbage after each task, which looks at every object of every module: 60 ms of CPU time, so 0.7 s for a
micro-batch of four partitions.

Before each task it invalidates the import caches. Up to Python 3.11 that reads the whole directory of `pyspark.zip`
again, once for each of its packages: 0.5 s of CPU time for each task. Python 3.12 reads it when it next looks for a
module (CPython issue 103200).
"""

import gc
import os
import sys
from zipimport import zipimporter

import pyarrow as pa

_read: dict[zipimporter, tuple[int, int] | None] = {}
"""The time of change and the bytes of each finder's archive when it was read."""

_invalidate_caches = zipimporter.invalidate_caches


def prepare_worker() -> None:
    """Shortens the start of tasks in this process, if it is a worker; called once, when all modules are imported.

    Any other process, such as a driver or a notebook, is left as it is.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name in ("pyspark.daemon", "pyspark.worker"):
        prepare_process()


def prepare_process() -> None:
    """Shortens the start of tasks in this process and in the processes that it forks."""
    read_changed_archives_only()
    # The first conversion imports pandas, where it is installed: 27,000 objects, so 20 ms after each task.
    pa.array([0])
    # Objects of modules live as long as the process, so the collector may skip them.
    gc.freeze()


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
