"""The example: bills, with a process killed again and again."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_order_is_billed_twice() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "examples.exactly_once", "--orders", "4000", "--kills", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("killed process") == 3
    assert run.stdout.splitlines()[-1] == "4000 orders, 4000 bills: 0 missing, 0 repeated"
