"""The command and the errors of `acker spark submit`, and its driver, without a Spark session."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import spark_jobs
from spark_jobs.components import source_of
from spark_jobs.main import explained, kafka_settings, load
from spark_jobs.packages import check_session
from spark_jobs.submit import KAFKA_VARIABLE, SubmitPlan, submission
from tests.pages import ROOT
from tests.spark import submitted
from tests.unit.cli.running import call_acker

EXAMPLE = "examples.spark_word_count:topology"


def test_the_spark_submit_command_line() -> None:
    plan = SubmitPlan("m:t", "split", "t.split", "/check", extra=("--conf", "a=b"), driver=("--max-rows", "5"))
    line = plan.line()
    assert line[0].endswith("pyspark/bin/spark-submit")
    assert line[line.index("--master") + 1] == "local[*]"
    assert line[line.index("--packages") + 1] == ",".join(spark_jobs.packages())
    assert line.index("a=b") < line.index("--topology"), "arguments of spark-submit precede the driver"
    assert line[-8:] == [
        "--topology", "m:t", "--component", "split", "--checkpoint", "/check", "--max-rows", "5",
    ]  # fmt: skip
    assert "spark.driver.defaultJavaOptions" in str(line)
    assert "SharedArchiveFile" not in str(line)
    assert '"-XX:SharedArchiveFile=/a b/c.jsa"' in str(replace(plan, archive=Path("/a b/c.jsa")).line())
    assert "extraJavaOptions" not in str(line), "which are the site's"


def test_secrets_go_in_a_file_that_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKER_KAFKA__SASL_PASSWORD", "hush")
    monkeypatch.setenv("ACKER_KAFKA__BOOTSTRAP_SERVERS", "h:1")
    # In place of spark-submit: writes its arguments to a file, and reads the settings as a driver does.
    program = tmp_path / "spark-submit"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib, stat, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from spark_jobs.main import kafka_settings\n"
        "from spark_jobs.submit import KAFKA_VARIABLE\n"
        "file = pathlib.Path(os.environ[KAFKA_VARIABLE])\n"
        "mode = stat.S_IMODE(file.stat().st_mode)\n"
        "given = [dict(os.environ), sys.argv, kafka_settings(None, os.environ), mode, file.exists()]\n"
        f"pathlib.Path({str(tmp_path / 'started')!r}).write_text(json.dumps(given))\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("spark_jobs.submit.spark_submit", lambda: program)
    with submission(SubmitPlan("m:t", "split", "t.split", "/check"), {"sasl.password": "hush"}) as process:
        assert process.wait() == 0
    environment, line, settings, mode, is_left = json.loads((tmp_path / "started").read_text())
    assert "hush" not in str(environment)
    assert "hush" not in str(line)
    assert environment["ACKER_KAFKA__BOOTSTRAP_SERVERS"] == "h:1"
    assert (settings, mode, is_left) == ({"sasl.password": "hush"}, 0o600, False)


def test_dry_run_prints_the_command_line() -> None:
    run = call_acker(
        "spark", "submit", EXAMPLE, "--component", "split", "--dry-run", "--", "--driver-memory", "2g", cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    assert "--driver-memory 2g" in run.stdout
    assert f"--topology {EXAMPLE} --component split" in run.stdout


def test_submit_rejects_invalid_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    for reference, arguments, expected in (
        (EXAMPLE, ("--component", "missing"), "has no component 'missing'"),
        (EXAMPLE, ("--component", "count"), "'count' is run by acker run: add it with external=True"),
        (EXAMPLE, ("--component", "split", "--master", "yarn"), "needs --checkpoint"),
        (
            "tests.spark.submitted:topology",
            ("--component", "two_arguments"),
            "of spout 'two_arguments' cannot be called as function(spark)",
        ),
    ):
        run = call_acker("spark", "submit", reference, *arguments, cwd=ROOT, environment={submitted.NAME: "refused"})
        assert (run.returncode, run.stdout) == (1, "")
        assert expected in run.stderr
        assert run.stderr.startswith("acker: ")
        assert run.stderr.count("\n") == 1


def test_the_arguments_of_the_driver(tmp_path: Path) -> None:
    assert load(EXAMPLE).manifest.topology == "spark-word-count"
    for reference in ("nonsense", "no_such_module:topology", "examples.spark_word_count:missing", "os:getcwd"):
        with pytest.raises(spark_jobs.SubmitError):
            load(reference)
    assert kafka_settings(None, {"ACKER_KAFKA__BOOTSTRAP_SERVERS": "h:1"}) == {"bootstrap.servers": "h:1"}
    (tmp_path / "kafka.json").write_text('{"b": 2}')
    assert kafka_settings(str(tmp_path / "kafka.json"), {}) == {"b": 2}
    for file, environment in ((None, {}), (None, {KAFKA_VARIABLE: "no-such-file"}), (str(tmp_path / "none"), {})):
        with pytest.raises(spark_jobs.SubmitError):
            kafka_settings(file, environment)


def test_invalid_sources_are_rejected() -> None:
    def broken(_spark: object) -> str:
        raise RuntimeError("no such table\nand a page of Java")

    # None of the functions uses the session.
    spark = cast(Any, None)
    for source, expected in (
        (lambda _spark: cast(Any, ["lines"]), "returns a list: have it return the name of a topic"),
        (lambda _spark: spark_jobs.Source(cast(Any, None)), "returns a Source of a NoneType"),
        (lambda _spark: "two words", "reads no topic: topic name 'two words' cannot be used"),
        (broken, "'lines' raised RuntimeError: no such table; correct the function"),
    ):
        with pytest.raises(spark_jobs.ComponentRefusedError, match=expected):
            source_of(spark, "lines", source)
    assert source_of(spark, "lines", "a-topic") == spark_jobs.Source("a-topic")


def test_access_errors_of_java_are_recognised() -> None:
    page = (
        "Query x terminated\n\tat a.b.C(D.java)\nCaused by: org.apache.TopicAuthorizationException: Not authorized: [t]"
    )
    message = explained("words.split", Exception(page))
    assert message.startswith("words.split failed: TopicAuthorizationException: Not authorized: [t]; allow it with")
    assert "--role split" in message
    assert "\n" not in message
    assert "from its checkpoint" in explained("words.split", Exception("something else"))


def test_speculation_is_rejected_with_a_reason() -> None:
    settings: dict[str, str] = {}
    spark = cast(Any, SimpleNamespace(conf=settings))
    check_session(spark)
    settings["spark.speculation"] = "true"
    with pytest.raises(spark_jobs.SparkJobError, match="a speculative copy of a task writes its tuples a second time"):
        check_session(spark)


def test_a_topology_with_spark_components_is_imported_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; from tests.spark.submitted import topology; topology()"
    environment = {**os.environ, submitted.NAME: "without-pyspark"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, timeout=60)
