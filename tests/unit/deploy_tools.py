"""The programs that `.ci/deploy-tools` installs beside Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(sys.executable).parent


def installed_tool(name: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Runs one of them to its end; it must be installed."""
    found = shutil.which(name, path=f"{TOOLS}:{os.environ['PATH']}")
    assert found, f"no {name}: run .ci/deploy-tools"
    return subprocess.run([found, *arguments], input=given, capture_output=True, text=True, check=False, timeout=60)
