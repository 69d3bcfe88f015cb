"""Confluent's serializers in a topology, with a real registry that has Confluent's API: Apicurio, from Maven."""

import os
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from local_kafka.properties import free_port
from spout_sdk import KafkaBolt, KafkaSpout, TopologyBuilder, declare
from spout_sdk.errors import InvalidMessageError
from spout_sdk.testing import SimulatedCluster
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

ARTIFACT = "io.apicurio:apicurio-registry-app:2.6.13.Final"
ORDER = """{"type": "record", "name": "Order", "fields": [
    {"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}]}"""

Pair = tuple[Callable[..., Any], Callable[[bytes | None, SerializationContext], Any], Callable[[str, int], Any]]


def unpacked(into: Path) -> Path:
    """The jar of the registry, which Maven fetches once."""
    group, name, version = ARTIFACT.split(":")
    fetch = ("dependency:get", f"-Dartifact={ARTIFACT}:tar.gz:all", "-Dtransitive=false")
    subprocess.run(["mvn", "-q", "-B", *fetch], check=True, timeout=600)
    folder = Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version
    with tarfile.open(folder / f"{name}-{version}-all.tar.gz") as archive:
        archive.extractall(into, filter="data")
    (jar,) = into.glob("*runner.jar")
    return jar


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryClient]:
    folder = tmp_path_factory.mktemp("registry")
    jar, port = unpacked(folder), free_port()
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/subjects", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            return False

    settings = (f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["java", *settings, "-jar", jar], stdout=log, stderr=log, env={**os.environ})
        try:
            eventually(answers, "the registry to answer", 90)
            with SchemaRegistryClient({"url": url}) as client:
                yield client
        finally:
            process.kill()
            process.wait()


def avro(registry: SchemaRegistryClient) -> Pair:
    def make(customer: str, cents: int) -> Any:
        return {"customer": customer, "cents": cents}

    return AvroSerializer(registry, ORDER), AvroDeserializer(registry), make


def protobuf(registry: SchemaRegistryClient) -> Pair:
    fields = [("customer", FieldDescriptorProto.TYPE_STRING), ("cents", FieldDescriptorProto.TYPE_INT64)]
    optional = FieldDescriptorProto.LABEL_OPTIONAL
    made = [
        FieldDescriptorProto(name=name, number=number, type=kind, label=optional)
        for number, (name, kind) in enumerate(fields, 1)
    ]
    pool = DescriptorPool()
    message = DescriptorProto(name="Order", field=made)
    pool.Add(FileDescriptorProto(name="order.proto", package="shop", syntax="proto3", message_type=[message]))
    order = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    conf = {"use.deprecated.format": False}
    deserialize = ProtobufDeserializer(order, conf)

    def fields_of(value: bytes | None, context: SerializationContext) -> Any:
        read = deserialize(value, context)
        return {"customer": read.customer, "cents": read.cents}

    def make(customer: str, cents: int) -> Any:
        return order(customer=customer, cents=cents)

    return ProtobufSerializer(order, registry, conf), fields_of, make


@pytest.mark.parametrize("format_", [avro, protobuf])
def test_messages_of_a_registry_are_read_and_written(registry: SchemaRegistryClient, format_: Any) -> None:
    serializer, deserializer, make = format_(registry)

    def translate(record: Any) -> tuple[str, int]:
        try:
            order = deserializer(record.value(), SerializationContext(record.topic(), MessageField.VALUE))
        except (SerializationError, ValueError) as error:
            raise InvalidMessageError(str(error)) from error
        return order["customer"], order["cents"]

    def as_order(tuple_: Any) -> Any:
        order = make(tuple_["customer"], tuple_["cents"])
        return serializer(order, SerializationContext(f"checked-{format_.__name__}", MessageField.VALUE))

    target = f"checked-{format_.__name__}"
    builder = TopologyBuilder("orders")
    orders = declare({"customer": str, "cents": int})
    builder.set_spout("orders", KafkaSpout("orders", streams=[orders], translate=translate))
    builder.set_bolt("out", lambda: KafkaBolt(target, key="customer", value=as_order)).local_grouping("orders")
    with SimulatedCluster(builder.build()) as cluster:
        source = SerializationContext(f"orders-{format_.__name__}", MessageField.VALUE)
        cluster.produce("orders", serializer(make("ann", 500), source))
        cluster.produce("orders", b"no magic byte")
        cluster.run_until(lambda: bool(cluster.records(target) and cluster.dead_letters()))
        (record,) = cluster.records(target)
        value = record.value() or b""
        assert value[:1] == b"\0", "the magic byte of Confluent's format"
        assert registry.get_schema(int.from_bytes(value[1:5])).schema_type == format_.__name__.upper()
        read = deserializer(value, SerializationContext(target, MessageField.VALUE))
        assert read == {"customer": "ann", "cents": 500}
    assert f"{target}-value" in registry.get_subjects()
