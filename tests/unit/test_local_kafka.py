"""The parts of the embedded broker that need no broker."""

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from local_kafka import DownloadError, JavaNotFoundError, JavaTooOldError, LocalKafka
from local_kafka.distribution import (
    CACHE_VARIABLE,
    KAFKA_VERSION,
    REPOSITORY_VARIABLE,
    is_complete,
    jar_names,
    provide_jars,
)
from local_kafka.java import Java, find_java
from local_kafka.maven import central, download
from local_kafka.properties import FIXED, Security, broker_properties

QUIET = Console(quiet=True)


def fake_java(directory: Path, script: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    java = directory / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def says_version(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


def test_java_home_comes_before_path_unless_it_is_too_old(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "path", says_version("17.0.1"))
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    home = fake_java(tmp_path / "home" / "bin", says_version("21.0.1"))
    assert find_java(environ) == Java(home, 21, "21.0.1")
    fake_java(tmp_path / "home" / "bin", says_version("11.0.2"))
    assert find_java(environ) == Java(on_path, 17, "17.0.1")


def test_java_behind_a_version_managers_script_is_found(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "jdk" / "bin", says_version("17.0.1"))
    fake_java(tmp_path / "shims", f"echo '    java.home = {tmp_path / 'jdk'}' >&2\n{says_version('17.0.1')}")
    assert find_java({"PATH": str(tmp_path / "shims")}) == Java(real, 17, "17.0.1")


def test_the_error_without_java_17_lists_the_searched_places(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(tmp_path / "empty"), "PATH": str(tmp_path)}
    with pytest.raises(JavaNotFoundError) as absent:
        find_java(environ)
    assert f"JAVA_HOME ({tmp_path / 'empty'}): no java; PATH: no java" in str(absent.value)
    java = fake_java(tmp_path, "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    with pytest.raises(JavaNotFoundError, match=f"{java} does not run"):
        find_java(environ)
    fake_java(tmp_path, says_version("11.0.2"))
    with pytest.raises(JavaTooOldError, match=f"PATH: {java} is Java 11") as old:
        find_java(environ)
    for error in (absent, old):
        assert "Install Java 17 or newer" in str(error.value)
        assert "\n" not in str(error.value)


def test_overrides_replace_development_defaults_but_not_fixed_properties(tmp_path: Path) -> None:
    overrides = {"auto.create.topics.enable": "true", "log.retention.ms": "1000"}
    properties = broker_properties(port=1, controller_port=2, log_dir=tmp_path, overrides=overrides)
    assert properties.items() >= overrides.items()
    for name in FIXED:
        with pytest.raises(ValueError, match=f"^{name}: set by LocalKafka itself"):
            LocalKafka(properties={name: "x"})


def test_a_secured_broker_has_no_listener_without_tls(tmp_path: Path) -> None:
    security = Security(tmp_path / "broker.pem", tmp_path / "authority.pem", ("broker", "alice"))
    properties = broker_properties(
        port=1, certificate_port=2, controller_port=3, log_dir=tmp_path, overrides=security.properties()
    )
    protocols = dict(each.split(":") for each in properties["listener.security.protocol.map"].split(","))
    listeners = [each.partition("://")[0] for each in properties["listeners"].split(",")]
    assert [protocols[name] for name in listeners] == ["SASL_SSL", "SSL", "SSL"]
    assert properties["super.users"] == "User:broker;User:alice"
    assert properties["listener.name.ssl.ssl.client.auth"] == "required"
    assert properties["listener.name.controller.ssl.client.auth"] == "required"


def fill_cache(root: Path) -> Path:
    jars = root / f"kafka-{KAFKA_VERSION}"
    jars.mkdir(parents=True, exist_ok=True)
    for name in jar_names():
        (jars / name).write_bytes(b"jar")
    (jars / "jars.json").write_text(json.dumps(dict.fromkeys(jar_names(), 3)))
    return jars


def test_a_complete_cache_needs_neither_a_repository_nor_a_place_to_write(tmp_path: Path) -> None:
    jars = fill_cache(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert provide_jars(QUIET, {CACHE_VARIABLE: str(tmp_path)}) == jars
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", [min(jar_names()), "jars.json"])
@pytest.mark.parametrize("kept", [None, 2])
def test_damage_to_the_cache_is_detected(tmp_path: Path, name: str, kept: int | None) -> None:
    jars = fill_cache(tmp_path)
    assert is_complete(jars)
    content = (jars / name).read_bytes()
    (jars / name).unlink()
    if kept is not None:
        (jars / name).write_bytes(content[:kept])
    assert not is_complete(jars)


def test_a_failed_download_is_an_error_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=CACHE_VARIABLE):
        provide_jars(QUIET, {CACHE_VARIABLE: str(tmp_path / "file")})
    empty = {CACHE_VARIABLE: str(tmp_path / "cache"), REPOSITORY_VARIABLE: tmp_path.as_uri()}
    with pytest.raises(
        DownloadError, match=rf"from {tmp_path.as_uri()}: .*\.jar: .*No such file.*{REPOSITORY_VARIABLE}"
    ):
        provide_jars(QUIET, empty)
    assert not (tmp_path / "cache" / f"kafka-{KAFKA_VERSION}").exists()
    # The extra is installed where tests run.
    monkeypatch.setitem(sys.modules, "maven_artifact", None)
    with pytest.raises(DownloadError, match=r"pip install 'kafka-acker\[local\]'"):
        provide_jars(QUIET, {CACHE_VARIABLE: str(tmp_path)})


def test_a_jar_with_another_checksum_than_listed_is_refused(tmp_path: Path) -> None:
    repository, target = tmp_path / "repository", tmp_path / "jars"
    (repository / "group").mkdir(parents=True)
    (repository / "group" / "a.jar").write_bytes(b"jar")
    target.mkdir()
    jars = {"group/a.jar": hashlib.sha256(b"jar").hexdigest()}
    assert list(download(jars, target, repository.as_uri())) == ["group/a.jar"]
    assert (target / "a.jar").read_bytes() == b"jar"
    (repository / "group" / "a.jar").write_bytes(b"another")
    with pytest.raises(ValueError, match=r"a\.jar has SHA-256 \w+, not \w+: try again, or use another repository"):
        list(download(jars, target, repository.as_uri()))


def test_the_address_of_maven_central_is_known() -> None:
    assert re.fullmatch(r"https://[^/]+/maven2/?", central())
