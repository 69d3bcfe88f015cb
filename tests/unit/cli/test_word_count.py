"""The demo's topology as such."""

from pathlib import Path

import pytest

from acker_cli.demo import spark_word_count
from acker_cli.demo.word_count import COUNT, LINES, SPLIT, Parameters, topology
from tuple_tree.manifest import Subscription


def test_parameters_pass_through_the_environment(tmp_path: Path) -> None:
    parameters = Parameters("words-1", tmp_path, 0.25, 7, 12.5, 100)
    assert Parameters.from_environment(parameters.to_environment()) == parameters
    assert Parameters.from_environment({}) == Parameters()


def test_its_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in Parameters("words-1", tmp_path).to_environment().items():
        monkeypatch.setenv(name, value)
    manifest = topology().manifest
    assert manifest.topology == "words-1"
    assert [(component.name, component.tasks) for component in manifest.components] == [
        (LINES, 2),
        (SPLIT, 2),
        (COUNT, 2),
    ]
    assert manifest.bolts[0].subscriptions == (Subscription(source=LINES, stream="default", grouping="shuffle"),)
    assert manifest.bolts[1].subscriptions == (
        Subscription(source=SPLIT, stream="default", grouping="fields", fields=("word",)),
    )


def test_to_build_it_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    topology()
    assert list(tmp_path.iterdir()) == []


def test_with_spark_only_the_middle_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in Parameters("words-1", tmp_path).to_environment().items():
        monkeypatch.setenv(name, value)
    plain, spark = topology().manifest, spark_word_count.topology().manifest
    assert [(part.name, part.tasks, part.streams) for part in spark.components] == [
        (part.name, part.tasks, part.streams) for part in plain.components
    ]
    assert [bolt.subscriptions for bolt in spark.bolts] == [bolt.subscriptions for bolt in plain.bolts]
    assert [part.name for part in spark.components if part.external] == [SPLIT]
