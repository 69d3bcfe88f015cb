"""The cost of `importlib.invalidate_caches` with modules in archives, and the modules that it finds."""

import importlib
import importlib.util
import os
import subprocess
import sys
import zipimport
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest

from spark_jobs.python_worker import prepare_worker, read_changed_archives_only


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An archive that is on the path of imports."""
    path = tmp_path / "modules.zip"
    with ZipFile(path, "w") as made:
        made.writestr("zipped_first.py", "")
    monkeypatch.syspath_prepend(str(path))
    assert importlib.util.find_spec("zipped_first")
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    yield path
    sys.path_importer_cache.pop(str(path), None)


def test_an_archive_is_read_again_only_when_it_has_changed(archive: Path) -> None:
    """Up to Python 3.11; later versions read an archive only for an import, and are not changed."""
    read_changed_archives_only()
    with ZipFile(archive, "a") as changed:
        changed.writestr("zipped_second.py", "")
    importlib.invalidate_caches()
    assert importlib.util.find_spec("zipped_second")
    status = archive.stat()
    archive.write_bytes(b"x" * status.st_size)
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    importlib.invalidate_caches()
    assert bool(importlib.util.find_spec("zipped_first")) == (sys.version_info < (3, 12))
    archive.unlink()
    importlib.invalidate_caches()
    assert importlib.util.find_spec("zipped_first") is None, "a deleted archive is no error"


@cache
def of_a_worker() -> tuple[str, str]:
    """Whether a fresh worker that imports `spark_jobs` reads archives in another way; what its collector looks at."""
    code = (
        "import gc, sys, zipimport; from importlib.machinery import ModuleSpec\n"
        "sys.modules['__main__'].__spec__ = ModuleSpec('pyspark.daemon', None)\n"
        "original = zipimport.zipimporter.invalidate_caches\n"
        "import spark_jobs, pyarrow as pa\n"
        "print(zipimport.zipimporter.invalidate_caches is not original)\n"
        "pa.record_batch({'n': [1], 'text': ['a'], 'raw': [b'']})\n"
        "print(len(gc.get_objects()))"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    replaced, objects = run.stdout.split()
    return replaced, objects


def test_only_a_worker_of_spark_has_another_way_to_read_archives() -> None:
    """Not a driver or a notebook, whose own imports it would change."""
    original = zipimport.zipimporter.invalidate_caches
    prepare_worker()
    assert zipimport.zipimporter.invalidate_caches is original, "this process is no worker"
    assert of_a_worker()[0] == str(sys.version_info < (3, 12))


def test_the_collector_skips_what_a_worker_has_imported() -> None:
    """PySpark collects after each task. What a task imports, as pyarrow does pandas, would count each time."""
    assert int(of_a_worker()[1]) < 2_000
