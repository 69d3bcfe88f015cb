"""A run of random faults: progress on standard error, the report as JSON on standard output.

Example: python -m tests.chaos --minutes 10 --seed 7 --brokers 3 --spark
"""

import argparse
import json
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from acker_cli.chaos.faults import Faults
from acker_cli.errors import CliError
from acker_cli.processes.running import LOOK_SECONDS
from kafka_clients.client_settings import for_producer
from tests.chaos import topologies
from tests.chaos.brokers import Brokers, local_broker, three_brokers
from tests.chaos.checks import findings, summary
from tests.chaos.components import (
    DIRECTORY,
    NAME,
    RATE,
    SOURCE_PARTITIONS,
    is_over,
)
from tests.chaos.faults import OwnKind, all_kinds
from tests.chaos.targets import Target
from tests.waiting import eventually
from tuple_tree.anchors import SOURCE_HEADER

TOPOLOGIES: Final = {
    "own": topologies.own_spout,
    "kafka": topologies.kafka_spout,
    "exactly": topologies.exactly_once,
    "chained": topologies.chained,
    "chained-exactly": topologies.chained_exactly_once,
    "holds": topologies.holds,
    "most": topologies.at_most_once,
    "state": topologies.state,
    "state-exactly": topologies.state_exactly_once,
}
STEADY_SECONDS: Final = 15.0
REJECTED_EACH: Final = 500
"""After this number of messages, each bolt with exactly once gets a record that it rejects."""
STUCK_SECONDS: Final = 120.0
"""After so long without an ack of a newer message, the run ends."""
NEWER_MESSAGES: Final = 100


@contextmanager
def looped(work: Callable[[], Any], seconds: float, errors: list[str]) -> Iterator[None]:
    """Calls a function repeatedly, in a thread, and keeps its exception."""
    ended = threading.Event()

    def run() -> None:
        try:
            while not ended.wait(seconds):
                work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            errors.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def filler(targets: Sequence[Target], brokers: Brokers) -> Callable[[], None]:
    """Writes the next message to each source, as long as there are to be more."""
    # A message must neither be dropped nor sent twice, whatever the brokers do, or the numbers would not be those of
    # the offsets; see `_NEVER_TWICE` of the SDK. By default it would wait for a new leader for minutes.
    settings = {**for_producer({"bootstrap.servers": brokers.bootstrap_servers}), "log_level": 0}
    once = {"enable.idempotence": True, "message.timeout.ms": 0, "max.in.flight.requests.per.connection": 1}
    producer = Producer({**settings, **once})
    number = 0

    def fill() -> None:
        nonlocal number
        producer.poll(0)
        if is_over():
            producer.flush(1)
            return
        partition = number % SOURCE_PARTITIONS
        for target in targets:
            if target.has_source:
                target.arena.emit(number, time.time())
                producer.produce(target.source, b"x", partition=partition)
            if number % REJECTED_EACH == 0:
                for inbox in target.rejecting:
                    producer.produce(inbox, b"x", partition=0, headers=[(SOURCE_HEADER, b"numbers/unknown")])
        number += 1

    return fill


def run(
    seed: int,
    minutes: float,
    *,
    brokers: int = 1,
    spark: bool = False,
    only: str | None = None,
    chosen: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs faults for some minutes, and reports their effects."""
    makes = [TOPOLOGIES[name] for name in chosen or TOPOLOGIES]
    errors, faults = list[str](), list[dict[str, Any]]()
    recoveries: defaultdict[str, list[float]] = defaultdict(list)
    stuck: list[str] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        os.environ[DIRECTORY] = str(directory)
        os.environ[NAME] = f"chaos-{uuid.uuid4().hex[:6]}"
        print_line("starting the brokers and topologies")
        kafka = stack.enter_context(three_brokers() if brokers == 3 else local_broker(directory / "broker"))
        targets = [Target(make, kafka) for make in (*makes, *([topologies.spark] if spark else []))]
        tracked = [target for target in targets if target.tracked]
        for target in targets:
            stack.enter_context(target)
            stack.enter_context(looped(target.check_processes, LOOK_SECONDS, errors))
        stack.enter_context(looped(filler(targets, kafka), 1 / RATE, errors))
        working = "all topologies at work"
        eventually(lambda: errors or all(target.is_at_work for target in targets), working, 1_000)
        steady = "acks within seconds: Spark compiles its code for minutes"
        eventually(lambda: errors or is_steady(tracked), steady, 600)
        for target in targets:
            assert target.check.begin(), f"{target.topology.name}: a spout has not committed where it begins"
        began, pause = time.time(), threading.Event()
        draw = Faults(seed, all_kinds(kafka, targets, only), 0.0)
        while time.time() - began < 60 * minutes and not stuck and not errors:
            try:
                kafka.await_whole()
                fault = draw.next()
                kind = fault.kind
                assert isinstance(kind, OwnKind)
                print_line(f"{time.time() - began:6.1f} s  {kind.name}, {fault.seconds:g} s")
                start = time.time()
                lossy = [target for target in kind.crashes if not target.tracked]
                for target in lossy:
                    # What is under way then is not older: it cannot be overtaken on its path.
                    await_execution(target, start, stuck)
                    target.crash_begins(start)
                fault.happen(pause.wait)
            except (AssertionError, CliError) as error:
                errors.append(str(error))
                break
            end = time.time()
            seconds = recovered(tracked, end, stuck)
            for target in lossy:
                await_execution(target, end, stuck)
                target.crash_ends()
            faults.append({"kind": kind.name, "seconds": fault.seconds, "recovery": seconds})
            recoveries[kind.name].extend(seconds.values())
        (directory / "over").touch()
        for target in targets:
            try:
                eventually(target.is_done, "an outcome for each message", STUCK_SECONDS)
            except AssertionError:
                stuck.append(f"{target.topology.name} at the end")
        for target in targets:
            with suppress(AssertionError):
                eventually(lambda target=target: target.source_error() is None, "all messages in the source", 10)  # type: ignore[misc]
        errors += [wrong for target in targets if (wrong := target.source_error())]
        violations = {each.topology.name: lines for each in targets if (lines := each.violations())}
        broken = {
            target.topology.name: findings(
                *(target.topology, target.arena, target.cluster, target.excused),
                publishes=target.publishes,
            )
            for target in targets
        }
        excused = {target.topology.name: target.allowed_losses for target in targets if not target.tracked}
        messages = {target.topology.name: target.arena.emitted for target in targets}
    return {
        "seed": seed,
        "minutes": minutes,
        "brokers": brokers,
        "faults": len(faults),
        "messages": messages,
        "broken": broken,
        "violations": violations,
        "excused": excused,
        "stuck": stuck,
        "errors": errors,
        "recovery_seconds": summary(recoveries),
        "each": faults,
    }


def is_steady(targets: Sequence[Target]) -> bool:
    """Whether all topologies ack new messages within seconds."""
    seconds = recovered(targets, time.time(), [])
    return len(seconds) == len(targets) and max(seconds.values()) < STEADY_SECONDS


def await_execution(target: Target, end: float, stuck: list[str]) -> None:
    """Waits until a topology whose trees are not followed executes newer messages, of all partitions and tasks."""
    try:
        eventually(lambda: target.arena.complete_since(end) >= NEWER_MESSAGES, "newer messages", STUCK_SECONDS)
    except AssertionError:
        stuck.append(target.topology.name)


def recovered(targets: Sequence[Target], end: float, stuck: list[str]) -> dict[str, float]:
    """Waits until each topology has acked a newer message; returns the seconds from the end of the fault to that."""
    found: dict[str, float] = {}
    pause = threading.Event()
    while len(found) < len(targets):
        for target in targets:
            name = target.topology.name
            at = target.arena.first_ack_of_newer(end) if name not in found else None
            if at is not None:
                found[name] = round(at - end, 2)
        if time.time() - end > STUCK_SECONDS:
            stuck += [target.topology.name for target in targets if target.topology.name not in found]
            break
        pause.wait(0.05)
    print_line(
        "          recovered after " + ", ".join(f"{name.rpartition('-')[2]} {s:g} s" for name, s in found.items())
    )
    return found


_terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)


def print_line(line: str) -> None:
    """A line of progress."""
    _terminal.write(f"{line}\n")


def log_to(path: Path) -> None:
    """Redirects the standard error of this process and its children to a file."""
    with path.open("ab") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    logging.basicConfig(level="INFO", format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")


def main() -> int:
    """Runs the command line; 1 if a promise was broken or something got stuck."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32), help="repeats the faults")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults happen (default: 10)")
    parser.add_argument("--log", type=Path, default=Path("chaos.log"), help="what processes log (default: chaos.log)")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="3 are containers (default: 1)")
    parser.add_argument("--spark", action="store_true", help="a topology with a spout and a bolt in Spark as well")
    parser.add_argument("--topologies", nargs="+", choices=TOPOLOGIES, default=(), help="these (default: all)")
    parser.add_argument(
        "--only", help="faults whose names begin with this text, as 'kill leader' or 'end' (default: all)"
    )
    given = parser.parse_args()
    # As Ctrl-C, so that all that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    log_to(given.log)
    print_line(f"seed {given.seed}: --seed {given.seed} draws these faults again")
    try:
        chosen = {"only": given.only, "chosen": given.topologies}
        report = run(given.seed, given.minutes, brokers=given.brokers, spark=given.spark, **chosen)
    except Exception as error:
        logging.exception("the run ended")
        print_line(f"{type(error).__name__}: {error}; {given.log} has the traceback")
        return 1
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    is_fine = not (report["stuck"] or report["errors"] or report["violations"])
    return 0 if is_fine and not any(count for each in report["broken"].values() for count in each.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
