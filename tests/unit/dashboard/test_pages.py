"""The responses of the dashboard, its start and its end."""

import itertools
import re
import threading
from importlib.metadata import version

import pytest

from inspection.dashboard import DashboardServer, pages
from inspection.dashboard.recent import JsonObject
from inspection.http_server import ServedAt
from tests.unit.dashboard.figures import (
    AT,
    DEAD_LETTERS,
    EMPTY,
    FAILURES,
    GONE,
    LARGE,
    OLDEST,
    OVERVIEW,
    Figures,
    snapshot,
    tree,
)
from tests.unit.dashboard.http import TOKEN, Answer, Events, request
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_LOOK_SECONDS", 0.02)


def test_the_figures_as_json(served: DashboardServer, figures: Figures) -> None:
    for path, shown in (
        ("snapshot?topology=words", snapshot()),
        ("snapshot", snapshot()),  # the only topology need not be named
        ("topologies", {"topologies": ["words"], "chosen": None, "version": version("kafka-acker")}),
        ("failures?topology=words", {"failures": FAILURES}),
        ("dead-letters?topology=words", {"dead_letters": DEAD_LETTERS}),
        ("history?topology=words", figures.history("words")),
        ("history?component=split", figures.history("words", "split")),
        ("findings", figures.findings("words")),
        ("message?key=ORDER-4711", figures.message("words", "ORDER-4711", None)),
        ("state?bolt=count&key=the&key=a+b", figures.state("words", "count", ["the", "a b"])),
    ):
        assert request(served.port, f"/api/{path}").json == shown, path
    for figures.names in (["lines", "words"], []):
        refused = request(served.port, "/api/snapshot")
        assert refused.status == 400
        assert ", ".join(figures.names) in refused.json["error"]


def test_a_topology_may_be_chosen(figures: Figures) -> None:
    figures.names = ["lines", "words"]
    with DashboardServer(figures, ServedAt(token=TOKEN), "words") as served:
        assert request(served.port, "/api/topologies").json["chosen"] == "words"
        assert request(served.port, "/api/overview").json == {"topologies": [{"topology": "words", **OVERVIEW}]}
        assert request(served.port, "/api/snapshot").json["topology"] == "words"
        refused = request(served.port, "/api/snapshot?topology=lines")
        assert refused.status == 404
        assert refused.json["error"].startswith("this dashboard shows words only, not lines: leave out topology=")


def test_a_tree_page_shows_the_output_of_trace(served: DashboardServer, figures: Figures) -> None:
    root = 2**63 + 1
    for path in (f"topology=words&root={root:016x}&at={AT}", f"root={root:#x}"):
        assert request(served.port, f"/api/trace?{path}").json == {"topology": "words", "trees": [tree(root)]}
    assert figures.traced == [("words", root, AT), ("words", root, None)]
    oldest = request(served.port, "/api/trace?topology=words&oldest=3")
    assert (oldest.json["trees"], figures.oldest_of) == ([tree(OLDEST)], [("words", 3)])


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"trace?root={GONE:#x}", 404, "Search further back"),
        (f"trace?root={LARGE:#x}", 503, "60 s at most"),
        ("trace?root=yesterday", 400, "give 64 bits in hexadecimal"),
        ("trace?", 400, "give 64 bits in hexadecimal"),
        ("trace?root=0xff&at=noon", 400, "give milliseconds"),
        (f"trace?oldest={EMPTY}", 404, "Look again"),
        ("trace?oldest=all", 400, "give its number"),
        ("state?bolt=count&key=gone&key=a", 404, "has no key gone a"),
        ("state?bolt=count&key=gone", 400, "a key is one value for each field"),
        ("state?key=gone", 400, "name the bolt and the key"),
        ("message?key=gone", 404, "has no message with key gone"),
        ("message?", 400, "one of key= and offset="),
        *((f"{path}&topology=other", 404, "acker topics create") for path in ("trace?root=0xff", "message?key=a")),
        *((f"{path}?topology=other", 404, "acker topics create") for path in ("snapshot", "events")),
        ("state?bolt=count&topology=other", 404, "acker topics create"),
        ("other", 404, "there is no page /api/other"),
    ],
)
def test_errors_have_a_remedy(served: DashboardServer, path: str, status: int, message: str) -> None:
    answer = request(served.port, f"/api/{path}")
    assert answer.status == status
    assert message in answer.json["error"]


def test_events_are_sent_for_new_figures(served: DashboardServer, figures: Figures) -> None:
    events = Events(served.port, "/api/events?topology=words")
    assert events.answer.headers["content-type"].startswith("text/event-stream")
    assert events.next() == ("snapshot", snapshot())
    figures.shown = snapshot(7)
    assert events.next() == ("snapshot", snapshot(7))
    figures.broken = True
    problem = {"error": "no broker answers at nowhere:9092. Start one"}
    assert events.next() == ("problem", problem)
    refused = request(served.port, "/api/snapshot?topology=words")
    assert (refused.status, refused.json) == (503, problem)
    figures.broken = False
    assert events.next() == ("snapshot", snapshot(7))
    events.close()


def test_a_stream_ends_with_its_reader(served: DashboardServer, figures: Figures) -> None:
    """Otherwise each page that was ever open would keep requesting figures."""
    numbers, unchanged = itertools.count(1), figures.snapshot
    seen = [0, 0, 0, 0]

    def counted(topology: str) -> JsonObject:
        seen[0] = next(numbers)
        figures.shown = snapshot(seen[0])
        return unchanged(topology)

    figures.snapshot = counted  # type: ignore[method-assign]
    events = Events(served.port, "/api/events?topology=words")
    assert events.next() is not None
    events.close()

    def is_quiet() -> bool:
        seen.append(seen[0])
        return len(set(seen[-4:])) == 1

    eventually(is_quiet, "the end of the requests")


def test_the_publisher_ends_immediately_without_an_answer(figures: Figures) -> None:
    """Open requests are answered; threads that wait for a broker do not delay the end."""
    requested, answer = threading.Event(), threading.Event()

    def stuck(topology: str) -> JsonObject:
        requested.set()
        assert answer.wait(600)
        return snapshot()

    figures.snapshot = stuck  # type: ignore[method-assign]
    server = DashboardServer(figures, ServedAt(token=TOKEN))
    server.start()
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(request(server.port, "/api/snapshot?topology=words")))
    asking.start()
    assert requested.wait(60)
    server.close()
    asking.join(60)
    assert [one.status for one in answers] == [503]
    assert "stopping" in answers[0].json["error"]
    answer.set()


def test_the_page_fetches_and_runs_only_its_own_files(served: DashboardServer) -> None:
    """The page names no other host and has no inline code, so it sends no data elsewhere even without a policy."""
    kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    files = [*pages.STATIC.iterdir()]
    assert len(files) >= 8
    for path in files:
        text = path.read_text()
        assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}, path.name
        if path.suffix == ".html":
            assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)|javascript:", text), path.name
        if path.suffix == ".js":
            inline = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function"
            assert not re.search(inline, text), path.name
        answer = request(served.port, f"/static/{path.name}")
        assert answer.body.decode() == text
        assert answer.headers["content-type"].startswith(kinds[path.suffix])
    assert request(served.port, "/").headers["content-type"].startswith("text/html")
    assert request(served.port, "/trace/ff?topology=words").body == (pages.STATIC / "trace.html").read_bytes()
