"""The archive of Java classes from which drivers start."""

import subprocess
from pathlib import Path

import pytest

from spark_jobs.class_archive import archive_in, archive_option, make_archive
from spark_jobs.packages import spark_submit

pytestmark = pytest.mark.exhaustive


def test_a_driver_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    archive, log = archive_in(tmp_path / "with space"), tmp_path / "classes.log"
    make_archive(archive)
    options = f"{archive_option(archive)} -Xlog:class+load:file={log}"
    subprocess.run([spark_submit(), "--driver-java-options", options, "--version"], check=True, capture_output=True)
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)" in log.read_text()
