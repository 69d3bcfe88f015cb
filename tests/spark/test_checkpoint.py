"""Whom a checkpoint belongs to."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.checkpoint import claim_checkpoint
from spark_jobs.errors import CheckpointRefusedError

OWNER = {"topology": "words", "component": "split", "kind": "bolt", "lanes": 1}


def test_a_claim_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    claim_checkpoint(spark, checkpoint, OWNER)
    claim_checkpoint(spark, checkpoint, OWNER)
    with pytest.raises(CheckpointRefusedError, match="component split"):
        claim_checkpoint(spark, checkpoint, {**OWNER, "component": "count"})
    assert [file.name for file in Path(checkpoint).iterdir() if not file.name.endswith(".crc")] == ["kafka-acker.json"]


def test_a_claim_that_broke_off_is_none(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    # The file is open already when this turns out to be no JSON: it stays as a driver that dies leaves it.
    with pytest.raises(TypeError):
        claim_checkpoint(spark, checkpoint, {**OWNER, "lanes": object()})
    claim_checkpoint(spark, checkpoint, OWNER)
    claim_checkpoint(spark, checkpoint, OWNER)
