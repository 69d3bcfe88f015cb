"""What the dashboard answers, and how it begins and ends."""

import re
import socket
import threading
from pathlib import Path

import pytest

from inspection.dashboard import DashboardError, DashboardServer, ServedAt, pages
from inspection.dashboard.source import Shown
from tests.unit.dashboard.figures import AT, DEAD_LETTERS, EMPTY, FAILURES, GONE, LARGE, OLDEST, Figures, snapshot, tree
from tests.unit.dashboard.http import Answer, Events, request
from tests.waiting import eventually


def test_the_figures_as_json(served: DashboardServer) -> None:
    assert request(served.port, "/api/snapshot?topology=words").json == snapshot()
    assert request(served.port, "/api/topologies").json == {"topologies": ["words"], "chosen": None}
    assert request(served.port, "/api/failures?topology=words").json == {"failures": FAILURES}
    assert request(served.port, "/api/dead-letters?topology=words").json == {"dead_letters": DEAD_LETTERS}
    history = request(served.port, "/api/history?topology=words").json
    assert history["topology"] == "words"
    assert len(history["points"]) == 121


def test_a_topology_need_not_be_named_where_there_is_one(served: DashboardServer, figures: Figures) -> None:
    assert request(served.port, "/api/snapshot").json == snapshot()
    figures.names = ["lines", "words"]
    answer = request(served.port, "/api/snapshot")
    assert answer.status == 400
    assert "lines, words" in answer.json["error"]
    figures.names = []
    assert request(served.port, "/api/snapshot").status == 400


def test_a_topology_may_be_chosen(figures: Figures) -> None:
    figures.names = ["lines", "words"]
    with DashboardServer(figures, ServedAt(), "words") as served:
        assert request(served.port, "/api/topologies").json["chosen"] == "words"
        assert request(served.port, "/api/snapshot").json["topology"] == "words"
        refused = request(served.port, "/api/snapshot?topology=lines")
        assert refused.status == 404
        assert refused.json == {
            "error": "this dashboard shows words only, not lines: leave out topology=, or start another"
        }


def test_a_tree_is_what_trace_prints(served: DashboardServer, figures: Figures) -> None:
    root = 2**63 + 1
    answer = request(served.port, f"/api/trace?topology=words&root={root:016x}&at={AT}")
    assert answer.status == 200
    assert answer.json == {"topology": "words", "trees": [tree(root)]}
    assert request(served.port, f"/api/trace?root={root:#x}").json == answer.json
    assert figures.traced == [("words", root, AT), ("words", root, None)]


def test_the_oldest_tree_of_a_partition(served: DashboardServer, figures: Figures) -> None:
    answer = request(served.port, "/api/trace?topology=words&oldest=3")
    assert answer.json == {"topology": "words", "trees": [tree(OLDEST)]}
    assert figures.oldest_of == [("words", 3)]


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        (f"root={GONE:#x}", 404, "Search further back"),
        (f"root={LARGE:#x}", 503, "60 s at most"),
        ("root=yesterday", 400, "give 64 bits in hexadecimal"),
        ("", 400, "give 64 bits in hexadecimal"),
        ("root=0xff&at=noon", 400, "give milliseconds"),
        ("root=0xff&topology=other", 404, "acker topics create"),
        (f"oldest={EMPTY}", 404, "Look again"),
        ("oldest=all", 400, "give its number"),
        ("oldest=", 400, "give its number"),
    ],
)
def test_a_tree_that_cannot_be_shown(served: DashboardServer, asked: str, status: int, said: str) -> None:
    answer = request(served.port, f"/api/trace?{asked}")
    assert answer.status == status
    assert said in answer.json["error"]


def test_errors_say_what_to_do(served: DashboardServer, figures: Figures) -> None:
    answer = request(served.port, "/api/snapshot?topology=other")
    assert answer.status == 404
    assert "acker topics create" in answer.json["error"]
    assert request(served.port, "/api/events?topology=other").status == 404
    assert request(served.port, "/api/other").json == {"error": "there is no page /api/other"}
    figures.broken = True
    answer = request(served.port, "/api/snapshot?topology=words")
    assert answer.status == 503
    assert "no broker answers" in answer.json["error"]


def test_events_come_when_there_is_something_new(served: DashboardServer, figures: Figures) -> None:
    events = Events(served.port, "/api/events?topology=words")
    assert events.answer.headers["content-type"].startswith("text/event-stream")
    assert events.next() == ("snapshot", snapshot())
    figures.shown = snapshot(7)
    assert events.next() == ("snapshot", snapshot(7))
    figures.broken = True
    assert events.next() == ("problem", {"error": "no broker answers at nowhere:9092. Start one"})
    figures.broken = False
    assert events.next() == ("snapshot", snapshot(7))
    events.close()


def test_a_stream_that_nobody_reads_any_more_ends(served: DashboardServer, figures: Figures) -> None:
    """Else each page that was ever open would go on asking for figures."""
    asked = 0
    ask = figures.snapshot

    def counted(topology: str) -> object:
        nonlocal asked
        asked += 1
        figures.shown = snapshot(asked)
        return ask(topology)

    figures.snapshot = counted  # type: ignore[assignment,method-assign]
    events = Events(served.port, "/api/events?topology=words")
    assert events.next() is not None
    events.close()
    before = -1
    pause = threading.Event()

    def is_quiet() -> bool:
        nonlocal before
        before, last = asked, before
        # Two looks of the stream would have come between.
        return before == last

    eventually(lambda: not pause.wait(2.5 * pages._LOOK_S) and is_quiet(), "the stream asks no more")


def test_it_ends_at_once_even_if_browsers_are_open(figures: Figures) -> None:
    server = DashboardServer(figures, ServedAt())
    server.start()
    events = [Events(server.port, "/api/events?topology=words") for _ in range(3)]
    assert all(stream.next() for stream in events)
    server.close()
    assert [stream.next() for stream in events] == [None, None, None]
    assert figures.closed
    for stream in events:
        stream.close()


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(DashboardError, match=rf"port {port}: .*in use.*--port") as raised:
            DashboardServer(Figures(), ServedAt(port=port)).start()
        assert "ACKER_DASHBOARD__PORT" in str(raised.value)


def test_a_host_that_is_not_here() -> None:
    with pytest.raises(DashboardError, match=r"at 192\.0\.2\.1, port 0: .*--host"):
        DashboardServer(Figures(), ServedAt("192.0.2.1")).start()


def test_the_page_asks_nobody_else() -> None:
    """It names no other host, so nothing leaves the machine even where a browser would let it."""
    files = [path for path in pages.STATIC.iterdir() if path.suffix in {".html", ".css", ".js", ".svg"}]
    assert len(files) == len([*pages.STATIC.iterdir()]) >= 8
    for path in files:
        found = set(re.findall(r"https?://[^\s\"']+", path.read_text()))
        assert found <= {"http://www.w3.org/2000/svg"}, path.name


def test_the_page_needs_no_leave_for_inline_code() -> None:
    for name in ("index.html", "trace.html"):
        page = (pages.STATIC / name).read_text()
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)|javascript:", page)
    scripts = "".join(path.read_text() for path in pages.STATIC.glob("*.js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", scripts)


def test_the_files_of_the_page_are_served(served: DashboardServer) -> None:
    kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    assert request(served.port, "/").headers["content-type"].startswith("text/html")
    assert request(served.port, "/trace/ff?topology=words").body == (pages.STATIC / "trace.html").read_bytes()
    for path in pages.STATIC.iterdir():
        answer = request(served.port, f"/static/{path.name}")
        assert answer.body == path.read_bytes()
        assert answer.headers["content-type"].startswith(kinds[path.suffix])


def test_the_page_is_in_the_package() -> None:
    assert Path(pages.__file__).parent == pages.STATIC.parent


def test_it_ends_at_once_even_if_the_cluster_does_not_answer(figures: Figures) -> None:
    """Who asked is told; the threads that wait for a broker are left to themselves."""
    asked, answer = threading.Event(), threading.Event()

    def stuck(topology: str) -> Shown:
        asked.set()
        assert answer.wait(600)
        return snapshot()

    figures.snapshot = stuck  # type: ignore[method-assign]
    server = DashboardServer(figures, ServedAt())
    server.start()
    told: list[Answer] = []
    asking = threading.Thread(target=lambda: told.append(request(server.port, "/api/snapshot?topology=words")))
    asking.start()
    assert asked.wait(60)
    server.close()
    asking.join(60)
    assert [one.status for one in told] == [503]
    assert "stopping" in told[0].json["error"]
    answer.set()
