"""The page in a browser, over figures of the tests' own."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from inspection.dashboard import DashboardServer
from inspection.http_server import ServedAt
from tests.browser import chromium
from tests.kafka.dashboard_page import OVERHANGS, UNKNOWN
from tests.unit.dashboard.figures import AT, FAILURES, FINDINGS, OLDEST, Figures, failure, snapshot
from tests.unit.dashboard.http import TOKEN
from tests.waiting import eventually

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("dashboard")]

PATIENCE_MS = 60_000.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


def state(page: Page, name: str) -> str:
    """Waits for a state of the page, and returns its text."""
    page.wait_for_selector(f"#status[data-state={name}]")
    return page.locator("#status").inner_text()


def test_values_of_records_are_escaped_in_the_page(context: BrowserContext, served: DashboardServer) -> None:
    """A client that may write to a topic chooses the text of an error: the page must not run it, nor fetch for it."""
    requested: list[str] = []
    context.on("request", lambda request: requested.append(request.url))
    page = context.new_page()
    page.goto(served.address)
    assert state(page, "live") == "live"
    page.goto(f"{page.url}#component-split")
    cell = page.locator("#component dd[data-figure=last_error]")
    assert cell.text_content() == snapshot()["components"][1]["last_error"]
    page.wait_for_selector("#failures-table td[data-figure=message]")
    assert page.locator("#failures-table [data-figure=message]").first.text_content() == "no <b>disk</b>"
    assert page.locator("#findings-list .remedy").last.text_content() == FINDINGS[-1]["remedy"]
    assert page.locator("table img, table b, #component img, .remedy i").count() == 0
    assert {urlsplit(url).netloc for url in requested} == {urlsplit(served.address).netloc}


def test_a_component_shows_its_load_findings_and_history(context: BrowserContext, served: DashboardServer) -> None:
    """And every figure is on the screen of a desk, without scrolling sideways."""
    page = context.new_page()
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(served.address)
    page.wait_for_selector("#findings-list li")
    page.wait_for_selector("#failures-table td.text")
    node = page.locator("#drawing a.node").nth(1)
    label = "bolt split: 1,235/s executed, lag 17, busy 93 %, findings: 1"
    assert node.get_attribute("aria-label") == label
    node.click()
    page.wait_for_selector("#component .curve.busy", state="attached")
    assert page.locator("#component-findings .found").all_inner_texts() == [FINDINGS[0]["found"]]
    task = page.locator("#loads-table tbody tr").first.locator("td")
    assert task.all_inner_texts() == ["host/18", "1,210", "93 %", "17", UNKNOWN]
    assert page.evaluate(OVERHANGS) == []
    page.go_back()
    page.wait_for_selector("#component", state="hidden")


def test_a_bolt_shows_its_state_and_searches_for_a_key(context: BrowserContext, served: DashboardServer) -> None:
    page = context.new_page()
    page.goto(served.address)
    state(page, "live")
    page.goto(f"{page.url}#component-count")
    figures = page.locator("#component-figures")
    found = {name: figures.locator(f"[data-figure={name}]").inner_text() for name in ("guarantee", "keys", "size")}
    assert found == {"guarantee": "each tuple once", "keys": "1,203,441", "size": "310 MB"}
    restore = figures.locator("[data-figure=restore]").inner_text()
    assert restore == "45 % of tasks 1, 2, 312,000 records/s, for 2.0 s"
    page.get_by_role("textbox", name="word").fill("the")
    page.get_by_role("textbox", name="page").fill("a b")
    page.get_by_role("button", name="Search the state").click()
    page.wait_for_selector("#state-value:has-text('text')")
    assert page.locator("#state-value").text_content() == '{"text": "<b>x</b>", "id": 9007199254740993}'
    assert page.locator("#state-message").inner_text().startswith("task 1, changed ")
    page.get_by_role("textbox", name="word").fill("gone")
    page.keyboard.press("Enter")
    page.wait_for_selector("#state-message:has-text('words.state.count has no key gone a b')")
    assert page.locator("#state-value").is_hidden()
    page.goto(page.url.replace("count", "split"))
    page.wait_for_selector("#state-search", state="hidden")


def test_a_message_is_searched_by_its_key_and_links_to_its_tree(
    context: BrowserContext, served: DashboardServer, figures: Figures
) -> None:
    page = context.new_page()
    page.goto(served.address)
    state(page, "live")
    text = page.get_by_role("textbox", name="Key or position of the message")
    text.fill("gone")
    page.keyboard.press("Enter")
    page.wait_for_selector("#message-note:has-text('has no message with key gone')")
    page.locator("#message-search select").select_option("offset")
    text.fill("3/42")
    page.get_by_role("button", name="Is it done?").click()
    found = page.locator("#message-found li")
    found.wait_for()
    assert found.inner_text().startswith("waiting for a retry: attempt 2 failed")
    assert "orders[3] offset 42, key <b>7</b>, read by lines" in found.inner_text()
    assert page.evaluate(OVERHANGS) == []
    found.get_by_role("link").click()
    page.wait_for_url("**/trace/00000000000000ff?topology=words")


def test_a_partition_leads_to_its_oldest_tree(
    context: BrowserContext, served: DashboardServer, figures: Figures
) -> None:
    """The page stays with that tree, also if another one is the oldest later."""
    figures.shown["acker"][1]["pending"] = 0
    page = context.new_page()
    page.goto(served.address)
    page.wait_for_selector("#partitions-table td a")
    assert page.locator("#partitions-table [data-figure=oldest_tree]").all_text_contents() == ["show", UNKNOWN]
    # Those with open trees come first; of a partition without an acker nothing is known.
    figures.shown = snapshot(AT + 1)
    figures.shown["acker"][0]["pending"] = None
    figures.shown["acker"][1]["pending"] = 5
    eventually(lambda: page.locator("#partitions-table tbody th").all_text_contents() == ["1", "0"], "another tree")
    page.get_by_role("link", name="Show the oldest open tree of partition 1").click()
    page.wait_for_selector("#status[data-state=live]:has-text('as of')")
    assert figures.oldest_of == [("words", 1)]
    root = f"{OLDEST:016x}"
    assert page.locator("h1").inner_text() == f"tree {root}"
    assert page.locator("#command code").inner_text() == f"acker trace {root} --topology words"
    assert page.url.endswith(f"/trace/{root}?topology=words")
    page.get_by_role("button", name="Look again").click()
    eventually(lambda: figures.traced == [("words", OLDEST, None)], "another look at the same tree")
    assert figures.oldest_of == [("words", 1)]


def test_a_token_opens_the_page_and_is_removed_from_the_address(context: BrowserContext, figures: Figures) -> None:
    with DashboardServer(figures, ServedAt(token=TOKEN)) as served:
        page = context.new_page()
        page.goto(served.address)
        state(page, "live")
        assert TOKEN not in page.url
        assert page.evaluate("document.cookie") == ""
        (cookie,) = context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        page.reload()
        assert state(page, "live") == "live"
        stranger = context.browser.new_context() if context.browser else context
        stranger.set_default_timeout(PATIENCE_MS)
        try:
            other = stranger.new_page()
            other.goto(page.url)
            assert "The dashboard needs its token" in other.content()
        finally:
            stranger.close()


def test_the_page_shows_errors_and_recovers(context: BrowserContext, figures: Figures) -> None:
    server = DashboardServer(figures, ServedAt(token=TOKEN))
    server.start()
    page = context.new_page()
    page.goto(server.address)
    state(page, "live")
    # The initial requests have been answered: only the stream has later figures.
    page.wait_for_selector("#failures-table td.text")
    page.wait_for_selector("#dead-table td.code")
    figures.broken = True
    assert state(page, "problem") == "no broker answers at nowhere:9092. Start one"
    # The stream has new figures every second, as real ones are.
    figures.shown = snapshot(AT + 1)
    figures.broken = False
    assert state(page, "live") == "live"
    port = server.port
    server.close()
    assert "does not answer" in state(page, "lost")
    with DashboardServer(figures, ServedAt(port=port, token=TOKEN)):
        assert state(page, "live") == "live"


def test_the_page_opens_with_the_verdict(context: BrowserContext, served: DashboardServer, figures: Figures) -> None:
    """And time-outs hide no exception among the failures."""
    figures.failed = [failure(f"{root:016x}", "timeout") for root in range(50)] + FAILURES[:1]
    page = context.new_page()
    page.goto(served.address)
    assert state(page, "live") == "live"
    first = page.locator("main > section").first
    assert first.locator("h2").inner_text() == "Health topics and brokers as of 9 Oct 08:53:19"
    assert first.locator(".found").all_inner_texts() == [each["found"] for each in FINDINGS]
    assert first.locator("#healthy").is_hidden()
    page.wait_for_selector("#failures-table td.text")
    assert page.locator("#failures-table [data-figure=reason]").all_inner_texts() == [*["timeout"] * 5, "failed"]
    assert page.locator("#failures-table [data-figure=by]").first.inner_text() == "see its tree"
    figures.shown = {**snapshot(AT + 1), "findings": [{**FINDINGS[0], "severity": "problem"}]}
    assert state(page, "unhealthy") == "1 problem"
    figures.shown = {**snapshot(AT + 2), "findings": []}
    assert state(page, "live") == "live"
    assert first.locator("#healthy").inner_text() == "Nothing is wrong."
    # All ackers take a line; a partition without an owner opens their tables.
    assert (
        page.locator("#ackers-line").inner_text() == "1 worker, 1 of 2 partitions, 12 open trees, the oldest 1.2 s old"
    )
    assert page.locator("#ackers-details").get_attribute("open") is not None


def test_nothing_scrolls_within_the_page_of_a_phone(
    context: BrowserContext, served: DashboardServer, figures: Figures
) -> None:
    figures.failed = [failure(f"{root:016x}", "timeout") for root in range(50)]
    page = context.new_page()
    page.set_viewport_size({"width": 400, "height": 850})
    page.goto(served.address)
    page.wait_for_selector("#failures-table tbody a")
    page.get_by_role("button", name="timeout").click()
    boxes = "[...document.querySelectorAll('main *')].filter((one) => one.scrollHeight > one.clientHeight + 1"
    scrolling = f"{boxes} && ['auto', 'scroll'].includes(getComputedStyle(one).overflowY)).map((one) => one.id)"
    assert page.evaluate(scrolling) == []
    rows = page.locator("#failures-table tbody tr")
    assert [rows.count(), rows.nth(7).is_visible(), rows.nth(8).is_visible()] == [50, True, False]
    page.locator("#failures .more").click()
    assert rows.nth(49).is_visible()
    assert page.locator("#failures .more").is_hidden()
    assert page.evaluate(scrolling) == []
    assert page.evaluate(OVERHANGS) == []


def test_a_frame_is_drawn_around_a_chain(context: BrowserContext, served: DashboardServer, figures: Figures) -> None:
    figures.shown["components"][1]["head"] = "lines"
    page = context.new_page()
    page.goto(served.address)
    assert state(page, "live") == "live"
    frame = page.locator("#drawing rect.chain")
    assert frame.get_attribute("data-head") == "lines"
    nodes = page.locator("#drawing a.node")
    around = frame.bounding_box()
    assert [is_within(node.bounding_box(), around) for node in nodes.all()] == [True, True, False]
    assert (nodes.nth(1).get_attribute("aria-label") or "").startswith("bolt split in the tasks of lines: ")
    assert page.locator("#component-split [data-figure=kind]").inner_text() == "bolt in lines"


def is_within(box: Any, around: Any) -> bool:
    return all(
        around[at] < box[at] and box[at] + box[size] < around[at] + around[size]
        for at, size in (("x", "width"), ("y", "height"))
    )


def test_a_finding_has_its_cause_its_evidence_and_commands_to_copy(
    context: BrowserContext, served: DashboardServer, figures: Figures
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    found = "Topology words is not running: no process runs any of its components; lag 5 records."
    commands = ["acker run MODULE:TOPOLOGY", "acker topologies delete words"]
    remedy = f"Start it: {commands[0]} and acker worker; or delete it: {commands[1]}."
    figures.shown["findings"] = [{**FINDINGS[0], "found": found, "remedy": remedy}]
    page = context.new_page()
    page.goto(served.address)
    item = page.locator("#findings-list li")
    assert item.locator(".cause").inner_text() == "Topology words is not running"
    assert item.locator(".evidence").inner_text() == "no process runs any of its components; lag 5 records."
    assert item.locator(".remedy").inner_text() == remedy
    assert item.locator(".command code").all_inner_texts() == commands
    item.get_by_role("button", name=f"Copy {commands[1]}").click()
    item.get_by_role("button").get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == commands[1]


def test_the_page_begins_with_the_state_and_what_is_open(
    context: BrowserContext, served: DashboardServer, figures: Figures
) -> None:
    """Until the figures are there, with places for them."""
    page = context.new_page()
    page.route("**/api/events*", lambda route: None)
    page.goto(served.address)
    page.wait_for_selector("main.waiting")
    assert page.locator("#tiles").is_hidden()
    page.unroute("**/api/events*")
    page.goto(served.address)
    state(page, "live")
    assert page.locator("main.waiting").count() == 0
    assert page.locator("#control").inner_text() == "running"
    assert page.locator("#version").inner_text() == version("kafka-acker")
    tiles = page.locator("#tiles dt").all_inner_texts()
    assert tiles[:3] == ["Open trees", "Oldest open (s)", "Lag"]
    assert page.locator("#tiles dd").all_inner_texts()[:3] == ["4,321", "1.2", "17"]
    # The dead letter was replayed.
    page.wait_for_selector("#dead-table tr.done")
    for control, processes, shown in (
        ("paused", 1, "paused"),
        ("running", 0, "not running"),
        ("stopped", 0, "stopped"),
    ):
        figures.shown = {**snapshot(figures.shown["at"] + 1), "control": control}
        for each in figures.shown["components"]:
            each["processes"] = processes
        page.wait_for_selector(f"#control:text-is('{shown}')")


def test_every_topology_has_a_light(context: BrowserContext, served: DashboardServer, figures: Figures) -> None:
    figures.names = ["words", "orders", "payments", "returns"]
    figures.states = {
        "orders": {"severity": "problem", "verdict": "no acker"},
        "payments": {"control": "paused"},
        "returns": {"processes": 0},
    }
    page = context.new_page()
    page.goto(served.address)
    page.wait_for_selector("#overview a")
    lights = page.locator("#overview a")
    # The findings of the page count for the topology that it shows.
    page.wait_for_selector("#overview a[data-light=warning]")
    shown = [link.get_attribute("data-light") for link in lights.all()]
    assert shown == ["warning", "problem", "paused", "not running"]
    assert lights.nth(1).get_attribute("title") == "no acker"
    lights.nth(2).click()
    page.wait_for_url("**/?topology=payments")
    state(page, "live")
    assert page.locator("#name").inner_text() == "payments"
    page.go_back()
    page.wait_for_selector("#name:text-is('words')")


def test_one_peak_does_not_flatten_the_latencies(
    context: BrowserContext, served: DashboardServer, figures: Figures
) -> None:
    for number, point in enumerate(figures.points):
        point |= {"complete_p50": 10.0 + number % 2 * 10, "complete_p99": 50.0}
    figures.points[60]["complete_p99"] = 60_000.0
    page = context.new_page()
    page.goto(served.address)
    page.wait_for_selector("#latency .curve.complete_p50", state="attached")
    height = page.locator("#latency .curve.complete_p50").bounding_box()
    assert height is not None
    assert height["height"] > 10
