"""Modules that a process of a component does not import, because they take memory and time at the start."""

import json
import subprocess
import sys

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
