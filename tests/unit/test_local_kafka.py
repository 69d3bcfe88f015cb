"""The parts of the embedded broker that need no broker."""

import io
import json
import os
import socket
from pathlib import Path

import pytest
from rich.console import Console

import local_kafka
from local_kafka import (
    BrokerStartError,
    DownloadError,
    JavaNotFoundError,
    JavaTooOldError,
    LocalKafka,
    LocalKafkaError,
)
from local_kafka.distribution import (
    CACHE_VARIABLE,
    KAFKA_VERSION,
    Distribution,
    cache_root,
    jar_names,
    provide_distribution,
)
from local_kafka.java import Java, find_java, parse_version
from local_kafka.ports import free_port, is_free
from local_kafka.properties import DEVELOPMENT, FIXED, broker_properties, open_listeners, render
from local_kafka.security import Security, secured_listeners


def fake_java(directory: Path, script: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    java = directory / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def says_version(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ('openjdk version "unknown"', None),
        ("", None),
    ],
)
def test_the_feature_release_is_read(output: str, version: int | None) -> None:
    assert parse_version(output) == version


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home" / "bin", says_version("21.0.1"))
    fake_java(tmp_path / "path", says_version("17.0.1"))
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert find_java(environ) == Java(home, 21)


def test_path_is_used_where_java_home_is_too_old(tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin", says_version("11.0.2"))
    on_path = fake_java(tmp_path / "path", says_version("17.0.1"))
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert find_java(environ) == Java(on_path, 17)


def test_the_runtime_behind_a_version_managers_script_is_found(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "jdk" / "bin", says_version("17.0.1"))
    fake_java(tmp_path / "shims", f"echo '    java.home = {tmp_path / 'jdk'}' >&2\n{says_version('17.0.1')}")
    assert find_java({"PATH": str(tmp_path / "shims")}) == Java(real, 17)


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    java = fake_java(tmp_path, says_version("11.0.2"))
    with pytest.raises(JavaTooOldError) as caught:
        find_java({"PATH": str(tmp_path)})
    message = str(caught.value)
    assert f"PATH: {java} is Java 11" in message
    assert "Install Java 17 or newer" in message
    assert "\n" not in message


def test_absence_of_java_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)})
    message = str(caught.value)
    assert f"JAVA_HOME ({tmp_path}): no java; PATH: no java" in message
    assert "Install Java 17 or newer" in message
    assert "\n" not in message


def test_a_stub_that_only_says_where_to_get_java_is_no_java(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    with pytest.raises(JavaNotFoundError, match=f"{java} does not run"):
        find_java({"PATH": str(tmp_path)})


def test_properties_render_as_java_reads_them() -> None:
    rendered = render({"a key": " x=y", "path": "C:\\müll 😀", "two": "1\n2"})
    assert rendered == "a\\ key=\\ x=y\npath=C:\\\\m\\u00fcll \\ud83d\\ude00\ntwo=1\\n2\n"


def test_overrides_come_before_the_development_defaults(tmp_path: Path) -> None:
    overrides = {"auto.create.topics.enable": "true", "log.retention.ms": "1000"}
    properties = broker_properties(
        listeners=open_listeners(1, 2), controller_port=2, log_dir=tmp_path, overrides=overrides
    )
    assert properties == {**properties, **overrides}
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert properties["offsets.topic.num.partitions"] == DEVELOPMENT["offsets.topic.num.partitions"]


def test_a_locked_door_has_no_listener_without_tls(tmp_path: Path) -> None:
    security = Security(tmp_path / "broker.pem", tmp_path / "authority.pem", ("broker", "alice"))
    properties = broker_properties(
        listeners=secured_listeners(1, 2, 3), controller_port=3, log_dir=tmp_path, overrides=security.properties()
    )
    protocols = dict(each.split(":") for each in properties["listener.security.protocol.map"].split(","))
    listeners = [each.partition("://")[0] for each in properties["listeners"].split(",")]
    assert [protocols[name] for name in listeners] == ["SASL_SSL", "SSL", "SSL"]
    assert properties["super.users"] == "User:broker;User:alice"
    assert properties["listener.name.ssl.ssl.client.auth"] == "required"
    assert properties["listener.name.controller.ssl.client.auth"] == "required"


def test_only_a_locked_door_has_an_address_for_certificates() -> None:
    with pytest.raises(LocalKafkaError, match="give it a Security"):
        _ = LocalKafka().certificate_servers


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_makes_the_broker_local_cannot_be_overridden(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: set by LocalKafka itself"):
        LocalKafka(properties={name: "x"})


def test_the_jars_are_those_of_the_stated_version() -> None:
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in jar_names()
    assert any(name.startswith("log4j-slf4j-impl-") for name in jar_names())


def test_the_cache_lies_where_the_environment_says(tmp_path: Path) -> None:
    assert cache_root({CACHE_VARIABLE: str(tmp_path)}) == tmp_path
    assert cache_root({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "kafka-acker"
    for environ in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}):
        assert cache_root(environ) == Path.home() / ".cache" / "kafka-acker"


def fill_cache(root: Path) -> Distribution:
    distribution = Distribution(root / f"kafka-{KAFKA_VERSION}")
    distribution.directory.mkdir(parents=True)
    for name in jar_names():
        (distribution.directory / name).write_bytes(b"jar")
    (distribution.directory / "jars.json").write_text(json.dumps(dict.fromkeys(jar_names(), 3)))
    return distribution


def test_a_complete_cache_needs_neither_ivy_nor_a_place_to_write(tmp_path: Path) -> None:
    distribution = fill_cache(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    java = Java(Path("/nowhere/java"), 17)
    assert provide_distribution(java, Console(quiet=True), {CACHE_VARIABLE: str(tmp_path)}) == distribution
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("damage", ["missing jar", "truncated jar", "no manifest", "half a manifest", "older manifest"])
def test_damage_to_the_cache_is_seen(tmp_path: Path, damage: str) -> None:
    distribution = fill_cache(tmp_path)
    jar = distribution.directory / min(jar_names())
    manifest = distribution.directory / "jars.json"
    match damage:
        case "missing jar":
            jar.unlink()
        case "truncated jar":
            jar.write_bytes(b"ja")
        case "no manifest":
            manifest.unlink()
        case "half a manifest":
            manifest.write_text(manifest.read_text()[:50])
        case _:
            manifest.write_text(json.dumps({"kafka_2.13-4.0.0.jar": 3}))
    assert not distribution.is_complete


def test_absence_of_pyspark_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # PySpark is installed where tests run.
    monkeypatch.setattr("local_kafka.distribution.importlib.util.find_spec", lambda name: None)
    with pytest.raises(DownloadError, match=r"pip install 'kafka-acker\[spark\]'") as caught:
        provide_distribution(Java(Path("java"), 17), Console(quiet=True), {CACHE_VARIABLE: str(tmp_path)})
    assert "\n" not in str(caught.value)


def test_a_cache_that_cannot_be_written_names_the_setting(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    with pytest.raises(DownloadError, match=CACHE_VARIABLE):
        provide_distribution(Java(Path("java"), 17), Console(quiet=True), {CACHE_VARIABLE: str(in_the_way)})


def test_progress_is_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    # A stand-in for Ivy that claims to have fetched everything.
    java = fake_java(tmp_path / "bin", "for i in $(seq 46); do echo '[SUCCESSFUL ] a#b;1!b.jar (1ms)'; done")
    shown = io.StringIO()
    with pytest.raises(DownloadError, match="Ivy ended well but left out"):
        provide_distribution(Java(java, 17), Console(file=shown), {CACHE_VARIABLE: str(tmp_path / "cache")})
    assert "  10 of 46 jars\n  20 of 46 jars\n" in shown.getvalue()
    assert "\x1b" not in shown.getvalue()
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_ports_in_use_are_not_free() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert not is_free(server.getsockname()[1])
    port = free_port()
    assert is_free(port)
    assert free_port(taken=[port]) != port


def test_a_start_error_shows_the_log() -> None:
    error = BrokerStartError("It ended:", log_path=Path("/logs/broker.log"), log_tail=["one", "two"])
    assert str(error) == "It ended:\n    one\n    two\nThe whole log: /logs/broker.log"


def test_the_address_is_known_once_there_is_a_port() -> None:
    assert LocalKafka(port=9092).bootstrap_servers == "127.0.0.1:9092"
    with pytest.raises(LocalKafkaError, match="call start"):
        _ = LocalKafka().bootstrap_servers


def test_stopping_what_does_not_run_does_nothing() -> None:
    kafka = LocalKafka()
    kafka.stop()
    kafka.kill()
    assert not kafka.is_running
    assert kafka.pid is None


def test_the_public_names() -> None:
    assert sorted(local_kafka.__all__) == local_kafka.__all__
    for name in local_kafka.__all__:
        exported = getattr(local_kafka, name)
        assert exported in (LocalKafka, Security) or issubclass(exported, LocalKafkaError)


def test_java_is_looked_for_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(JavaNotFoundError):
        LocalKafka(data_dir=tmp_path / "data").start()
    assert not (tmp_path / "data").exists()
