"""`acker spark submit`, and a topology of SDK and Spark components: in processes of their own."""

import importlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import spark_jobs
from spark_jobs.main import kafka_settings, load
from spark_jobs.submit import SubmitPlan
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    ComponentRunner,
    Stats,
    Topology,
    TopologyBuilder,
    TopologyError,
    Tuple,
    declare,
)
from tests.kafka.sdk_rig import Cluster, ToyAcker
from tests.spark.rig import topology_name
from tests.spark.test_bolt import explode
from tests.waiting import eventually

# A script, which the type checker sees under another name.
word_count: Any = importlib.import_module("examples.spark_word_count")


def acker(*arguments: str, **settings: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "acker_cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **settings,
    )


def test_the_line() -> None:
    plan = SubmitPlan("m:t", "split", "t.split", "/check", extra=("--conf", "a=b"), driver=("--max-rows", "5"))
    line = plan.line()
    assert line[0].endswith("pyspark/bin/spark-submit")
    assert line[line.index("--master") + 1] == "local[*]"
    assert line[line.index("--packages") + 1] == ",".join(spark_jobs.packages())
    assert line.index("a=b") < line.index("--topology"), "what is for spark-submit stands before the driver"
    assert line[-8:] == [
        "--topology", "m:t", "--component", "split", "--checkpoint", "/check", "--max-rows", "5",
    ]  # fmt: skip
    assert '"hush"' in plan.environment({"sasl.password": "hush"})["ACKER_SPARK_KAFKA"]
    assert "hush" not in str(plan.line())


def test_the_command_prints_the_line() -> None:
    command = ("spark", "submit", "examples.spark_word_count:topology", "--component", "split", "--dry-run")
    process = acker(*command, "--", "--driver-memory", "2g")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    assert "--driver-memory 2g" in said
    assert "--topology examples.spark_word_count:topology --component split" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--component", "nobody"), "has no component 'nobody'"),
        (("--component", "count"), "is run by acker run"),
        (("--component", "split", "--master", "yarn"), "needs --checkpoint"),
    ],
)
def test_the_command_refuses(arguments: tuple[str, ...], says: str) -> None:
    process = acker("spark", "submit", "examples.spark_word_count:topology", *arguments)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert says in said
    assert "Traceback" not in said


def test_what_the_driver_is_given(tmp_path: Path) -> None:
    assert load("examples.spark_word_count:topology").manifest.topology == "spark-word-count"
    for reference in ("nonsense", "no_such_module:topology", "examples.spark_word_count:nobody", "os:getcwd"):
        with pytest.raises(spark_jobs.SubmitError):
            load(reference)
    assert kafka_settings(None, {"ACKER_SPARK_KAFKA": '{"a": 1}'}) == {"a": 1}
    assert kafka_settings(None, {"ACKER_KAFKA__BOOTSTRAP_SERVERS": "h:1"}) == {"bootstrap.servers": "h:1"}
    (tmp_path / "kafka.json").write_text('{"b": 2}')
    assert kafka_settings(str(tmp_path / "kafka.json"), {}) == {"b": 2}
    for file, environment in ((None, {}), (None, {"ACKER_SPARK_KAFKA": "["}), (str(tmp_path / "none"), {})):
        with pytest.raises(spark_jobs.SubmitError):
            kafka_settings(file, environment)


def test_streams_of_external_components_are_declared_beside_them() -> None:
    class Leaf(BasicBolt):
        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            """Is never run here."""

    builder = TopologyBuilder("t")
    builder.set_spout("s", explode, external=True, streams=[declare("line")])
    builder.set_bolt("b", explode, external=True, streams=[declare("word")]).shuffle_grouping("s")
    manifest = builder.build().manifest
    assert [component.external for component in manifest.components] == [True, True]
    assert manifest.stream("b", "default").field_names == ("word",)
    with pytest.raises(TopologyError, match="declare them in its class"):
        builder.set_bolt("c", Leaf, streams=[declare("word")])
    with pytest.raises(TopologyError, match="twice"):
        builder.set_bolt("d", explode, external=True, streams=[declare("word"), declare("word")])


def renamed(topology: Topology) -> Topology:
    """The example under a name of its own."""
    manifest = topology.manifest.model_copy(update={"topology": os.environ["SPARK_TEST_TOPOLOGY"]})
    return Topology(manifest, topology.factories)


def example() -> Topology:
    return renamed(word_count.topology())


class InThread:
    """A component of the SDK in a thread of this process."""

    def __init__(self, topology: Topology, component: str, kafka: dict[str, Any]) -> None:
        self.stats = Stats(component)
        self._runner = ComponentRunner(topology, component, kafka, on_stats=self._keep)
        self._thread = threading.Thread(target=self._runner.run)

    def __enter__(self) -> "InThread":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.stop()
        self._thread.join(60)

    def _keep(self, stats: Stats) -> None:
        self.stats = stats


def test_an_sdk_spout_a_spark_bolt_and_an_sdk_bolt(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_TEST_TOPOLOGY", topology_name())
    topology = example()
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    log = tmp_path / "log"
    with log.open("w") as file:
        submitted = subprocess.Popen(
            [
                sys.executable, "-m", "acker_cli", "spark", "submit", f"{__name__}:example", "--component", "split",
                "--master", "local[2]", "--checkpoint", str(tmp_path / "checkpoint"), "--max-rows", "5000",
                "--bootstrap-servers", bootstrap_servers, "--", "--conf", "spark.sql.shuffle.partitions=2",
                "--conf", "spark.ui.enabled=false", "--driver-memory", "1g",
            ],
            stdout=file,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        with (
            ToyAcker(cluster),
            InThread(topology, "count", cluster.kafka) as count,
            InThread(topology, "lines", cluster.kafka) as lines,
        ):
            eventually(
                lambda: submitted.poll() is not None or lines.stats.acked >= word_count.LINES,
                "all lines to be acked",
                200,
            )
            assert submitted.poll() is None, log.read_text()
            eventually(lambda: count.stats.executed >= word_count.WORDS.total(), "all words to be counted")
            if not lines.stats.failed:
                assert Counter({word: count.stats.counters[word] for word in word_count.WORDS}) == word_count.WORDS
        submitted.send_signal(signal.SIGTERM)
        assert submitted.wait(60) == 0, log.read_text()
    finally:
        submitted.kill()
        submitted.wait(10)
    said = log.read_text()
    line = (
        r"\.split: batch \d+, [\d,]+ rows in, [\d,]+ rows/s, [\d,]+ unread, [\d,]+ tuples out, [\d,]+ acks, 0 failed, "
    )
    assert re.search(line, said), said
    assert "Traceback" not in said, said
