"""Storm's word count, in a local cluster of one worker; its bolts in Java, or in Python by the multilang protocol."""

import contextlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

from benchmarks.errors import BenchmarkError
from benchmarks.running import PEERS
from benchmarks.setup import python_peers
from benchmarks.setup.storm import WORD_COUNT, program, require
from benchmarks.word_count.contestants import Contestant, Counted, CountingRun, Setting
from benchmarks.word_count.text import lines
from benchmarks.word_count.topology import read_counts

HEAP_MB: Final = 1024
WARM: Final = 0.5
"""Share of a round that is left out at the beginning: each round is a new JVM, which compiles while it runs."""
_STOP_SECONDS: Final = 60.0
_SAID: Final = 2_000


class StormRun(CountingRun):
    """A local cluster that runs; it prints its progress ten times a second.

    Args:
        process: the program, with its standard output.
        errors: where it writes its warnings.
        setting: of the round.
    """

    def __init__(self, process: "subprocess.Popen[str]", errors: IO[bytes], setting: Setting) -> None:
        self._process = process
        self._errors = errors
        self._setting = setting
        self._said: Mapping[str, Any] = {"acked": 0, "failed": 0}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def total(self) -> int:
        return self._setting.lines

    def done(self) -> int:
        return int(self._said["acked"])

    def pids(self) -> Sequence[int]:
        return [self._process.pid]

    def check(self) -> None:
        if self._process.poll() is not None and self.done() < self.total:
            self._errors.seek(0)
            raise BenchmarkError(f"Storm has ended: {self._errors.read().decode(errors='replace')[-_SAID:]}")

    @property
    def versions(self) -> dict[str, str]:
        """Of Storm and Java, once it has ended."""
        return dict(self._said.get("versions", {}))

    def finish(self) -> None:
        """Waits until its counts are written and it has ended; kills it if that takes too long."""
        if self.done() >= self.total:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def counted(self) -> Counted:
        if "p50_ms" not in self._said:
            raise BenchmarkError(f"Storm did not say its latencies within {_STOP_SECONDS:g} s")
        counts = read_counts(self._setting.directory.glob("count-*"))
        return Counted(counts, int(self._said["failed"]), self._said["p50_ms"], self._said["p99_ms"])

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for line in pipe:
                if line.endswith("\n"):
                    self._said = json.loads(line)


class Storm(Contestant):
    """Storm.

    Args:
        name: of the contestant.
        lines: of its first round.
        framework: in whose environment the bolts run; None for those in Java.
    """

    on_kafka = False

    def __init__(self, name: str, lines: int, framework: str | None = None) -> None:
        super().__init__(name, lines, first=WARM)
        self._framework = framework
        self._said: dict[str, str] = {}

    def versions(self) -> dict[str, str]:
        """What Storm said of itself in its last round, and of pystorm."""
        require()
        return self._said | ({} if self._framework is None else python_peers.versions(self._framework))

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[CountingRun]:
        text = setting.directory / "text"
        text.write_text("\n".join(lines()) + "\n")
        arguments = [str(text), str(setting.lines), str(setting.tasks), str(setting.pending)]
        arguments += [str(setting.directory), str(self.first)]
        if self._framework is not None:
            python = python_peers.FRAMEWORKS[self._framework].python()
            arguments += [str(python), *(str(PEERS / f"{self._framework}_{bolt}.py") for bolt in ("split", "count"))]
        # Its ZooKeeper and its supervisor keep files; they go with those of the round.
        options = [f"-Djava.io.tmpdir={setting.directory}"]
        command = program(WORD_COUNT, HEAP_MB, *arguments, options=options)
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                cwd=setting.directory,
            )
            run = StormRun(process, errors, setting)
            try:
                yield run
            finally:
                run.finish()
                self._said = run.versions
