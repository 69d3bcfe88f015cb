"""The fingerprints in the records' headers, worked out anew from the Avro specification."""

import json
from typing import Any

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


def test_fingerprints_are_crc64_of_the_canonical_form_little_endian() -> None:
    assert _crc64(b'"int"') == 0x7275D51A3F395C8F
    for codec, name in ((ACK_BATCH, "ack_batch"), (NOTICE_BATCH, "notice_batch")):
        canonical = _canonical(json.loads((schema_directory() / f"{name}.avsc").read_text()))
        fingerprint = _crc64(canonical.encode()).to_bytes(8, "little")
        assert codec.fingerprint == fingerprint
        assert codec.header == b"\xc3\x01" + fingerprint


def test_words_for_people_do_not_change_a_fingerprint() -> None:
    schema = json.loads((schema_directory() / "ack_batch.avsc").read_text())
    schema["doc"] = "another"
    for field in schema["fields"]:
        field.pop("doc", None)
        field.pop("default", None)
    assert SingleObjectCodec(schema).fingerprint == ACK_BATCH.fingerprint
    schema["fields"].append({"name": "more", "type": "long", "default": 0})
    assert SingleObjectCodec(schema).fingerprint != ACK_BATCH.fingerprint
