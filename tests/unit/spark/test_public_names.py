"""The exported names, pinned: taking one away breaks somebody's job."""

import spark_jobs


def test_the_exported_names() -> None:
    assert sorted(spark_jobs.__all__) == [
        "CheckpointRefusedError",
        "ComponentRefusedError",
        "RunningQuery",
        "RunningSpout",
        "Source",
        "SourceFunction",
        "SparkJobError",
        "SubmitError",
        "TopicsRefusedError",
        "Transform",
        "TransformRefusedError",
        "Written",
        "bolt",
        "emit",
        "mark_failed",
        "merge_tracking",
        "packages",
        "required_settings",
        "session",
        "spout",
    ]
    assert all(hasattr(spark_jobs, name) for name in spark_jobs.__all__)
