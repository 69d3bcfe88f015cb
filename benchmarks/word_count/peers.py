"""The other contestants: Quix Streams and Bytewax over Kafka, and Storm with bolts in Java or in Python."""

import contextlib
import json
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

from benchmarks.harness import BenchmarkError
from benchmarks.processes import PEERS, Process, running_peer
from benchmarks.setup import FRAMEWORKS, WORD_COUNT, require_storm, storm_program
from benchmarks.topics import Topics
from benchmarks.word_count.contestants import PARTITIONS, TASKS, Contestant, Counted, Run, Setting
from benchmarks.word_count.text import lines, plain_count
from benchmarks.word_count.topology import read_counts

_HEAP_MB: Final = 1024
_WARM: Final = 0.5
"""Share of a round that is left out at the beginning: each round is a new JVM, which compiles while it runs."""
_STOP_SECONDS: Final = 60.0


class KafkaRun(Run):
    """Processes of one group that run; their progress is the number of records in their sink."""

    def __init__(self, processes: Sequence[Process], topics: Topics, sink: str, total: int) -> None:
        self.total = total
        self._processes = processes
        self._topics = topics
        self._sink = sink

    def done(self) -> int:
        return sum(self._topics.end(self._sink, partition) for partition in range(PARTITIONS))

    def pids(self) -> Sequence[int]:
        return [process.pid for process in self._processes]

    def check(self) -> None:
        for process in self._processes:
            process.check()

    def counted(self) -> Counted:
        """The largest count of each word in the sink."""
        counts: Counter[str] = Counter()
        for partition in range(PARTITIONS):
            end = self._topics.end(self._sink, partition)
            for message in self._topics.read(self._sink, 0, end, partition):
                word, count = (message.key() or b"").decode(), int(message.value() or b"0")
                counts[word] = max(counts[word], count)
        return Counted(counts)


class KafkaPeer(Contestant):
    """A framework that reads and writes Kafka topics.

    Args:
        name: of the contestant.
        framework: in whose environment it runs.
        lines: of its first round.
        processes: how many share the work.
    """

    def __init__(self, name: str, framework: str, lines: int, processes: int = 1) -> None:
        super().__init__(name, lines)
        self._framework = framework
        self._processes = processes

    def versions(self) -> dict[str, str]:
        return FRAMEWORKS[self._framework].versions()

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        source, sink = setting.source(), f"{setting.name}.sink"
        setting.topics.create({sink: PARTITIONS})
        with contextlib.ExitStack() as stack:
            processes = []
            for number in range(self._processes):
                own = setting.directory / str(number)
                own.mkdir()
                arguments = [setting.topics.servers, source, sink, setting.name, "--words", str(own)]
                processes.append(stack.enter_context(running_peer(self._framework, *arguments)))
            yield KafkaRun(processes, setting.topics, sink, plain_count(setting.lines).total())

    def kind(self, topic: str) -> str:
        return next((kind for kind in ("repartition", "changelog") if topic.startswith(kind)), "sink")


class StormRun(Run):
    """A local cluster that runs; it prints its progress ten times a second.

    Args:
        process: the program, with its standard output.
        errors: where it writes its warnings.
        setting: of the round.
    """

    def __init__(self, process: "subprocess.Popen[str]", errors: IO[bytes], setting: Setting) -> None:
        self.total = setting.lines
        self._process = process
        self._errors = errors
        self._setting = setting
        self._progress: Mapping[str, Any] = {"acked": 0, "failed": 0}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def done(self) -> int:
        return int(self._progress["acked"])

    def pids(self) -> Sequence[int]:
        return [self._process.pid]

    def check(self) -> None:
        if self._process.poll() is not None and self.done() < self.total:
            self._errors.seek(0)
            raise BenchmarkError(f"Storm has ended: {self._errors.read().decode(errors='replace')[-2_000:]}")

    @property
    def versions(self) -> dict[str, str]:
        """Of Storm and Java, once it has ended."""
        return dict(self._progress.get("versions", {}))

    def finish(self) -> None:
        """Waits until its counts are written and it has ended; kills it if that takes too long."""
        if self.done() >= self.total:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def counted(self) -> Counted:
        last = self._progress
        if "p50_ms" not in last:
            raise BenchmarkError(f"Storm did not print its latencies within {_STOP_SECONDS:g} s")
        return Counted(read_counts(self._setting.directory), int(last["failed"]), last["p50_ms"], last["p99_ms"])

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for line in pipe:
                if line.endswith("\n"):
                    self._progress = json.loads(line)


class Storm(Contestant):
    """Storm in a local cluster of one worker.

    Args:
        name: of the contestant.
        lines: of its first round.
        framework: in whose environment the bolts run, by the multilang protocol; None for those in Java.
    """

    on_kafka = False

    def __init__(self, name: str, lines: int, framework: str | None = None) -> None:
        super().__init__(name, lines, first=_WARM)
        self._framework = framework
        self._versions: dict[str, str] = {}

    def versions(self) -> dict[str, str]:
        """Of pystorm, and after a round of Storm."""
        require_storm()
        return self._versions | ({} if self._framework is None else FRAMEWORKS[self._framework].versions())

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        text = setting.directory / "text"
        text.write_text("\n".join(lines()) + "\n")
        arguments = [str(text), str(setting.lines), str(TASKS), str(setting.pending)]
        arguments += [str(setting.directory), str(self.first)]
        if self._framework is not None:
            python = FRAMEWORKS[self._framework].python()
            arguments += [str(python), *(str(PEERS / f"{self._framework}_{bolt}.py") for bolt in ("split", "count"))]
        # Its ZooKeeper and its supervisor keep files; they go with those of the round.
        options = [f"-Djava.io.tmpdir={setting.directory}"]
        command = storm_program(WORD_COUNT, _HEAP_MB, *arguments, options=options)
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
                self._versions = run.versions
