"""The fingerprints in the records' headers, worked out anew from the Avro specification."""

import json
from typing import Any

import pytest

from tuple_tree.codec import ACK_BATCH, NOTICE_BATCH, SingleObjectCodec, schema_directory


def _crc64(text: bytes) -> int:
    """CRC-64-AVRO, bit by bit from the definition in the Avro specification."""
    empty = 0xC15D213AA4D7A795
    fingerprint = empty
    for byte in text:
        fingerprint ^= byte
        for _ in range(8):
            fingerprint = (fingerprint >> 1) ^ (empty if fingerprint & 1 else 0)
    return fingerprint


def _canonical(schema: Any, namespace: str = "") -> str:
    """The parsing canonical form, from the rules in the Avro specification, for what our schemas use."""
    if isinstance(schema, str):
        return json.dumps(schema)
    if isinstance(schema, list):
        return f"[{','.join(_canonical(branch, namespace) for branch in schema)}]"
    namespace = schema.get("namespace", namespace)
    name = f'"name":"{namespace}.{schema.get("name")}","type":"{schema["type"]}"'
    if schema["type"] == "record":
        fields = (
            f'{{"name":"{field["name"]}","type":{_canonical(field["type"], namespace)}}}' for field in schema["fields"]
        )
        return f'{{{name},"fields":[{",".join(fields)}]}}'
    if schema["type"] == "fixed":
        return f'{{{name},"size":{schema["size"]}}}'
    assert schema["type"] == "array"
    return f'{{"type":"array","items":{_canonical(schema["items"], namespace)}}}'


def test_the_known_fingerprint_of_int() -> None:
    assert _crc64(b'"int"') == 0x7275D51A3F395C8F


@pytest.mark.parametrize(
    ("codec", "name", "fingerprint"),
    [(ACK_BATCH, "ack_batch", 0xA3F5A94C2BF55832), (NOTICE_BATCH, "notice_batch", 0x2DBC6486774A8740)],
)
def test_fingerprints_are_crc64_of_the_canonical_form_little_endian(
    codec: SingleObjectCodec, name: str, fingerprint: int
) -> None:
    canonical = _canonical(json.loads((schema_directory() / f"{name}.avsc").read_text()))
    assert _crc64(canonical.encode()) == fingerprint
    assert codec.fingerprint == fingerprint.to_bytes(8, "little")
    assert codec.header == b"\xc3\x01" + fingerprint.to_bytes(8, "little")


def test_words_for_people_do_not_change_a_fingerprint() -> None:
    schema = json.loads((schema_directory() / "ack_batch.avsc").read_text())
    schema["doc"] = "another"
    for field in schema["fields"]:
        field.pop("doc", None)
        field.pop("default", None)
    assert SingleObjectCodec(schema).fingerprint == ACK_BATCH.fingerprint
    schema["fields"].append({"name": "more", "type": "long", "default": 0})
    assert SingleObjectCodec(schema).fingerprint != ACK_BATCH.fingerprint
