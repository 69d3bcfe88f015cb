"""The profile `spark`: a Spark cluster runs the word count's middle; with one broker, for that is to work as well."""

import pytest

from tests.cluster.project import running


@pytest.mark.timeout(900)
def test_a_bolt_in_spark_counts_as_the_others_do() -> None:
    with running("spark-verify", files=["compose.single.yml"], environment={"WORD_COUNT_LINES": "10000"}) as project:
        done = project.attempt("run", "--rm", "--no-TTY", "spark-verify", seconds=800)
        assert done.returncode == 0, done.stdout
        assert "10,000 of 10,000 lines acked" in done.stdout
        assert "counts match: " in done.stdout
        assert "0 of them more than once" in done.stdout
        (split,) = project.containers("spark-split")
        assert "resolving dependencies" not in project.log(split), "the image brings what Spark needs"
