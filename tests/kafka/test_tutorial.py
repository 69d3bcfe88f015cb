"""The tutorial, as somebody follows it: `acker run` with the embedded broker, a bolt that raises, a killed process."""

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

from tests.pages import blocks
from tests.unit.cli.running import descendants, running_acker

BLOCKS = blocks("docs/tutorial.md")


def processes_of(pid: int, component: str) -> set[int]:
    """Those that `pkill -f` finds by what the tutorial says, among what a command has started."""
    command = re.compile(rf"spout_sdk\.process readings:topology {component}\b")
    found: set[int] = set()
    for each in descendants(pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if command.search(Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode()):
                found.add(each)
    return found


def test_it_runs_replays_what_fails_and_survives_a_kill(tmp_path: Path) -> None:
    flaky = next(block for block in BLOCKS if "class Flaky" in block)
    topology = next(block for block in BLOCKS if "builder.set_bolt" in block)
    parts = [*BLOCKS[: BLOCKS.index(topology)], flaky, topology.replace('"parse", Parse', '"parse", Flaky')]
    (tmp_path / "readings.py").write_text("\n\n".join(parts))
    with running_acker("run", "readings:topology", "--local", cwd=tmp_path) as command:
        seen = re.compile(r"acked [1-9].*failed [1-9].*replayed [1-9]")
        command.wait_until(lambda: bool(seen.search(command.said)), "acks, failures and replays")
        command.wait_for("the cable is loose")
        (pid,) = processes_of(command.process.pid, "parse")
        os.kill(pid, signal.SIGKILL)
        command.wait_for("was killed by SIGKILL; restarting")
        command.wait_until(lambda: processes_of(command.process.pid, "parse") not in (set(), {pid}), "another process")
        assert command.end(signal.SIGTERM) == 0
