"""What the clients of our word count send and fetch at each hop, and how often they poll in vain.

A hop is a client of a component and the topics that it reads or writes. Its requests and bytes are those that
librdkafka counts, so bytes are those on the wire, with all requests and responses of the client; a poll is a call of
`poll` or `consume` of its consumer, in vain if it returned nothing. All in the steady part of one round.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from acker_cli.processes.acker_process import AckerLaunch
from benchmarks.errors import BenchmarkError
from benchmarks.processes import environment
from benchmarks.word_count.contestants import Contestant, Setting, fresh_name
from benchmarks.word_count.observed import DIRECTORY, REFERENCE
from benchmarks.word_count.ours import Ours, OursRun, running_words
from benchmarks.word_count.rounds import Rounds, check, say
from benchmarks.word_count.topology import Words
from benchmarks.word_count.watching import Steady, steady, watch

_READY_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 30.0

Row = dict[str, Any]


def measure(
    make: Callable[[str, Path, int], Setting],
    contestants: Sequence[Contestant],
    given: argparse.Namespace,
    rounds: Rounds,
    broker: int,
) -> list[Row]:
    """One round of each of ours that was asked for; a row for each client of each component."""
    rows: list[Row] = []
    for each in contestants:
        if not isinstance(each, Ours):
            raise BenchmarkError(f"--requests is about ours, and not about {each.name}: leave it out of --only")
        count = given.lines or rounds.calibrated(each, given.seconds)
        directory = Path(tempfile.mkdtemp(prefix="word-count-requests-"))
        try:
            setting = make(fresh_name(each.name), directory, count)
            rows += [{"contestant": each.name, **row} for row in _round(each, setting, broker)]
            setting.topics.delete(setting.name)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return rows


def _round(ours: Ours, setting: Setting, broker: int) -> list[Row]:
    plan = ours.plan(setting)
    observed = setting.directory / "observed"
    observed.mkdir()
    with environment(**{DIRECTORY: str(observed)}), contextlib.ExitStack() as stack:

        def ready() -> None:
            stack.enter_context(_acker(plan, setting.topics.servers))

        with running_words(plan, setting, REFERENCE, before=ready, ackers=0) as running:
            run = OursRun(running, setting, ours.part(setting))
            looks = watch(run, broker)
    check(ours, setting.lines, run.counted())
    part = steady(looks, run.total, *ours.part(setting))
    rows = [row for file in sorted(observed.iterdir()) if (row := _row(file, setting.name, part)) is not None]
    for row in rows:
        say(", ".join(f"{name} {value}" for name, value in row.items()))
    return rows


@contextlib.contextmanager
def _acker(plan: Words, servers: str) -> Iterator[None]:
    """An acker worker that is observed, once it has all partitions."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.word_count.observed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(AckerLaunch(plan.name, {"bootstrap.servers": servers}, {}, "WARNING").to_line())
    process.stdin.flush()
    has_all = threading.Event()
    output = process.stdout

    def read() -> None:
        for line in output:
            if json.loads(line).get("stats", {}).get("partitions") == plan.ack_partitions:
                has_all.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while not has_all.wait(0.1):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError("the acker worker has ended, or has not all partitions")
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdin.close()
        reader.join()
        output.close()


def _row(file: Path, name: str, part: Steady) -> Row | None:
    """What a client did in the steady part; None if it did nothing."""
    samples = [json.loads(line) for line in file.read_text().splitlines()]
    within = [each for each in samples if part.began <= each["at"] <= part.began + part.seconds]
    # A short round has fewer reports: what they have seen, start-up included, is better than nothing.
    within = within if len(within) > 1 else samples
    if len(within) < 2:
        return None
    first, last = within[0], within[-1]
    component, kind = file.name.split("-")[:2]
    took = last["at"] - first["at"]
    grown: Mapping[str, float] = {key: last[key] - first[key] for key in last if isinstance(last[key], int)}
    asked = "produce" if kind == "producer" else "fetch"
    sent, moved = ("txmsgs", "tx_bytes") if kind == "producer" else ("rxmsgs", "rx_bytes")
    if not grown[asked] or not last["topics"]:
        return None
    row: Row = {
        "component": component,
        "client": kind,
        "topics": ", ".join(sorted(topic.removeprefix(f"{name}.") for topic in last["topics"])),
        f"{asked}_per_s": round(grown[asked] / took, 1),
        "other_requests_per_s": round((grown["requests"] - grown[asked]) / took, 1),
        "records_per_request": round(grown[sent] / grown[asked], 2),
        "bytes_per_request": round(grown[moved] / grown[asked], 1),
    }
    if kind == "consumer":
        row |= {
            "polls_per_s": round(grown["polls"] / took, 1),
            "empty_polls_per_s": round(grown["empty"] / took, 1),
        }
    return {"comparison": kind, **row}
