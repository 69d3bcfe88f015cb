"""What being looked at costs: a bolt at its full rate with nobody looking, and with everybody.

    python -m benchmarks.looking
    python -m benchmarks.looking --rounds 3 --tuples 3000000
    python -m benchmarks.looking --quick

Alone, the topology has no `stats` topic, so its processes publish nothing, and no metrics are served. Watched, the bolt
publishes its figures, which are also scraped, as by Prometheus, but every second; `acker top` draws on a terminal; and
`acker dashboard` has a browser's stream of events open. All of that runs on the processors that the bolt and the broker
have, so it takes from the bolt what it needs, as it would not on a machine of its own. The two take turns.
"""

import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from benchmarks import command, running
from benchmarks.broker_topics import Flow, Topics, watch
from benchmarks.errors import BenchmarkError
from benchmarks.plans import REFERENCE, STREAM, Plan
from benchmarks.results import Spread, machine, publish, report
from local_kafka import LocalKafka
from local_kafka.ports import free_port
from tuple_tree.names import component_group, stats_topic, tuples_topic

ALONE: Final = Plan("looking-alone")
WATCHED: Final = Plan("looking-watched")
_SCRAPE_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 60.0
_START_SECONDS: Final = 60.0


class Rounds:
    """Measures the bolt of the two topologies on inboxes that are filled once.

    Args:
        topics: of the broker.
        broker: its process id.
        tuples: in each inbox.
    """

    def __init__(self, topics: Topics, broker: int, tuples: int) -> None:
        self._topics = topics
        self._broker = broker
        for plan in (ALONE, WATCHED):
            running.make_topics(topics, plan, without=() if plan is WATCHED else [stats_topic(plan.name)])
            topics.fill_packs(tuples_topic(plan.name, "transform"), STREAM, tuples, b"source/default", tracked=True)

    def alone(self) -> Flow:
        """A round in which nobody looks."""
        with self._bolt(ALONE) as bolt:
            return self._watch(ALONE, [bolt])

    def watched(self) -> Flow:
        """A round in which everybody does."""
        servers = ["--bootstrap-servers", self._topics.servers]
        port = free_port()
        with ExitStack() as stack:
            top = stack.enter_context(running.acker("top", WATCHED.name, *servers, terminal=True))
            dashboard = stack.enter_context(running.acker("dashboard", "--port", "0", *servers))
            stack.enter_context(_asking(f"{_address(dashboard)}api/events?topology={WATCHED.name}", again_after=None))
            bolt = stack.enter_context(self._bolt(WATCHED, "--metrics-port", str(port)))
            stack.enter_context(_asking(f"http://127.0.0.1:{port}/metrics", again_after=_SCRAPE_SECONDS))
            return self._watch(WATCHED, [bolt, top, dashboard])

    @contextmanager
    def _bolt(self, plan: Plan, *options: str) -> Iterator[running.Process]:
        self._topics.rewind(component_group(plan.name, "transform"), tuples_topic(plan.name, "transform"))
        arguments = ("run", REFERENCE, "--component", "transform", "--bootstrap-servers", self._topics.servers)
        with running.acker(*arguments, *options, variables=plan.environment) as process:
            yield process

    def _watch(self, plan: Plan, processes: list[running.Process]) -> Flow:
        def check() -> None:
            for process in processes:
                process.check()

        return watch(
            self._topics,
            tuples_topic(plan.name, "sink"),
            {"broker": [self._broker], **{process.name: [process.pid] for process in processes}},
            records=None,
            stream=STREAM,
            longest=_LONGEST_SECONDS,
            check=check,
        )


@contextmanager
def _asking(url: str, again_after: float | None) -> Iterator[None]:
    """Asks for a page and reads its answer to the end, again and again; once, if it has none.

    Raises:
        BenchmarkError: at the end, if there was no answer at all: what is measured would be nobody looking.
    """
    over = threading.Event()
    read: list[int] = []
    last: list[str] = ["nothing was asked"]

    def ask() -> None:
        while not over.is_set():
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    for line in answer:
                        read.append(len(line))
                        if over.is_set():
                            return
            except OSError as error:
                last[0] = str(error)
                over.wait(0.2)
            over.wait(again_after or 0)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
        if not read:
            raise BenchmarkError(f"{url} did not answer: {last[0]}")
    finally:
        over.set()
        asking.join(15)


def _address(dashboard: running.Process) -> str:
    """Where the dashboard is, as it says when it has started."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        dashboard.check()
        found = next((line for line in dashboard.said().splitlines() if line.startswith("http://")), None)
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the dashboard did not start within {_START_SECONDS:g} s: {dashboard.said()}")
        time.sleep(0.05)


def _row(side: str, flows: list[Flow]) -> dict[str, Any]:
    return {
        "side": side,
        "tuples_per_s": Spread.of([flow.rate for flow in flows]),
        "cpu_us_per_tuple": Spread.of([flow.cpu_us("acker run") for flow in flows], 3),
        **{
            f"processors_of_{name}": Spread.of([flow.cpu[f"acker {name}"] / flow.seconds for flow in flows], 4)
            for name in ("top", "dashboard")
            if all(f"acker {name}" in flow.cpu for flow in flows)
        },
    }


def main() -> None:
    parser = command.parser(__doc__, "few tuples, one round")
    parser.add_argument("--tuples", type=int, help="in each inbox; 5,000,000 unless given")
    parser.add_argument("--rounds", type=int, help="9 unless given")
    given = parser.parse_args()
    tuples = given.tuples or (2_000_000 if given.quick else 5_000_000)
    rounds = given.rounds or (1 if given.quick else 9)
    host = machine()
    alone: list[Flow] = []
    watched: list[Flow] = []
    with LocalKafka(jvm="server", heap="1g") as kafka:
        topics = Topics(kafka.bootstrap_servers)
        try:
            turns = Rounds(topics, kafka.pid or 0, tuples)
            for number in range(rounds):
                alone.append(turns.alone())
                watched.append(turns.watched())
                print(
                    f"round {number + 1}: alone {alone[-1].rate:,.0f}/s, watched {watched[-1].rate:,.0f}/s",
                    file=sys.stderr,
                )
        finally:
            topics.close()
    rows = [_row("alone", alone), _row("watched", watched)]
    ratios = {
        "watched to alone": round(rows[1]["tuples_per_s"].median / rows[0]["tuples_per_s"].median, 4),
        "watched to alone, by CPU time of the bolt": round(
            rows[0]["cpu_us_per_tuple"].median / rows[1]["cpu_us_per_tuple"].median, 4
        ),
    }
    settings = {"tuples": tuples, "rounds": rounds, "scrape_seconds": _SCRAPE_SECONDS}
    publish(report("looking", host, rows, settings, ratios=ratios), command.directory(given))


if __name__ == "__main__":
    command.run(main)
