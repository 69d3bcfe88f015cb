"""`acker init`."""

import importlib.util
import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

from acker_cli.commands.options import argument, command
from acker_cli.console import standard_output
from acker_cli.errors import CliError

FILES: Final = {
    "shop.py": "the steps, and how they are connected",
    "test_shop.py": "tests of the steps, and of the topology",
    "orders.jsonl": "messages for a local run",
    "pyproject.toml": "what it needs",
    "compose.yml": "Kafka, an acker worker and the topology in containers",
    ".github/workflows/test.yml": "runs the tests on GitHub",
    "AGENTS.md": "how to test, run and change it, for people and coding agents",
    ".gitignore": "what git leaves out",
}
"""The files of `acker_cli/project`, which is a project named `shop`."""
_SHOP: Final = re.compile(r"(?<![a-z])shop(?![a-z])")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_USED: Final = ("items", "ship")  # names of functions in shop.py


@command(
    "init",
    ("acker init shop", "a project in the new folder shop"),
)
def init(
    name: str = argument("NAME", "Of the folder, the module and the topology: lower case letters, digits and _."),
) -> None:
    """Write a project with a topology of two steps, its tests, and files to run it.

    The folder must not exist. The tests pass, and the topology runs: change it into yours, step by step.
    """
    folder = Path(name)
    _check(folder, name)
    output = standard_output()
    for file, use in FILES.items():
        path = folder / _SHOP.sub(name, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = files("acker_cli").joinpath("project", file).read_text(encoding="utf-8")
        path.write_text(_SHOP.sub(name, text), encoding="utf-8")
        output.print(f"wrote {path!s:<32} {use}")
    output.print(
        f"\nNext:\n\n  cd {name} && pip install -e '.[dev]'\n  pytest\n"
        f"  acker run {name}:{name} --local --reload --feed orders=orders.jsonl"
    )


def _check(folder: Path, name: str) -> None:
    """Raises `CliError` if there is such a folder, or a module and a topology cannot have the name."""
    if not _NAME.fullmatch(name):
        raise CliError(f"{name!r} cannot be the name of a module: write lower case letters, digits and _")
    if folder.exists():
        raise CliError(f"{name} is there already, and is not overwritten: choose another name, or remove it")
    if keyword.iskeyword(name) or name in (*sys.stdlib_module_names, *_USED) or importlib.util.find_spec(name):
        raise CliError(f"{name!r} is a name of Python, of an installed package or of a step: choose another name")
