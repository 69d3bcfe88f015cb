"""Modules that a process of a component does not import, because they take memory and time at the start."""

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from tuple_tree.arrow_packs import PackCodec
from tuple_tree.streams import declare

_HEAVY = ("numba", "llvmlite", "pandas", "prometheus_client", "pyarrow", "rich", "rocksdict", "starlette", "typer")


def imported(code: str) -> list[str]:
    """The heavy modules that a new interpreter has imported after it has run some code."""
    script = f"import json, sys\n{code}\nprint(json.dumps([name for name in {_HEAVY} if name in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(run.stdout)
    return names


def test_a_process_that_has_no_stream_of_codec_arrow() -> None:
    code = "import spout_sdk.runtime.process\nfrom tuple_tree.payloads import payload_codec\n"
    code += "from tuple_tree.streams import declare\n"
    code += "for codec in ('json', 'avro'): payload_codec(declare({'word': 'string'}, codec=codec)).row(['to'])"
    assert imported(code) == []


def test_packs_are_made_without_pandas() -> None:
    rows = [("größer", b"\x00", 1, 2, 0.5, 0.25)]
    stream = "declare({'a': 'string', 'b': 'bytes', 'c': 'int', 'd': 'long', 'e': 'float', 'f': 'double'})"
    code = "import pyarrow\nfrom tuple_tree.payloads import payload_codec\nfrom tuple_tree.streams import declare\n"
    code += f"codec = payload_codec({stream})\nassert codec.decode(codec.encode({rows})) == ({rows}, {{}})"
    assert imported(code) == ["pyarrow"]


@pytest.mark.parametrize(
    ("avro_type", "values"),
    [
        ("string", ["to", "", "be"]),
        ("string", ["größer", "or"]),
        ("string", ["x" * 100] * 1_000),
        (["null", "string"], ["to", None]),
        ("bytes", [b"\xff", b"", b"ab"]),
        ("int", [-(2**31), 2**31 - 1]),
        ("long", [-(2**63), 2**63 - 1]),
        (["null", "long"], [None, 1]),
        ("float", [0.1, float("-inf"), 3]),
        ("double", [0.1, float("inf"), -0.0]),
        ("boolean", [True, False]),
    ],
)
def test_a_column_is_that_of_arrow(avro_type: Any, values: list[Any]) -> None:
    codec = PackCodec(declare({"x": avro_type}))
    (field,) = codec.schema
    for given in (values, values[:1], []):
        batch = codec.columns([(value,) for value in given])
        batch.validate(full=True)
        theirs = pa.RecordBatch.from_arrays([pa.array(given, type=field.type)], schema=codec.schema)
        assert codec.encode(batch) == codec.encode(theirs)


@pytest.mark.parametrize(
    ("avro_type", "value"), [("string", 3), ("string", "\ud800"), ("int", 2**31), ("long", 2**63), ("bytes", 3)]
)
def test_a_value_that_does_not_fit_is_an_error_of_arrow(avro_type: str, value: Any) -> None:
    codec = PackCodec(declare({"x": avro_type}))
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whichever it is
        pa.array([value], type=codec.schema.field("x").type)
    with pytest.raises(theirs.type):
        codec.columns([(value,)])
