"""The page in a browser, over figures of the tests' own."""

from collections.abc import Iterator
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from inspection.dashboard import DashboardServer, ServedAt
from tests.browser import chromium
from tests.kafka.dashboard_page import CONTRAST, UNKNOWN
from tests.unit.dashboard.figures import AT, GONE, OLDEST, Figures, component, snapshot, tree
from tests.waiting import eventually

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("dashboard")]

PATIENCE_MS = 60_000.0
TOKEN = "0123456789abcdefghij"


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


def until(page: Page, condition: str) -> None:
    """Waits for a condition of the page; Playwright's own way to wait is forbidden by the page's policy."""
    eventually(lambda: page.evaluate(condition), condition)


def state(page: Page, name: str) -> str:
    """Waits for a state of the page, and gives what it says."""
    page.wait_for_selector(f"#status[data-state={name}]")
    return page.locator("#status").inner_text()


def test_what_a_record_says_is_text_and_nothing_else(context: BrowserContext, served: DashboardServer) -> None:
    """Anybody who may write to a topic decides what stands in an error; the page must not run it, nor fetch for it."""
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    page.goto(served.address)
    assert state(page, "live") == "live"
    cell = page.locator("#component-split [data-figure=last_error]")
    assert cell.text_content() == snapshot()["components"][1]["last_error"]
    page.wait_for_selector("#failures-table td[data-figure=message]")
    assert page.locator("#failures-table [data-figure=message]").first.text_content() == "no <b>disk</b>"
    assert page.locator("table img, table b").count() == 0
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(served.address).netloc}


def test_a_partition_leads_to_its_oldest_tree(
    context: BrowserContext, served: DashboardServer, figures: Figures
) -> None:
    """And then stays with that tree, whichever is the oldest later."""
    figures.shown["acker"][1]["pending"] = 0
    page = context.new_page()
    page.goto(served.address)
    page.wait_for_selector("#partitions-table td a")
    assert page.locator("#partitions-table [data-figure=oldest_tree]").all_text_contents() == ["show", UNKNOWN]
    figures.shown = snapshot(AT + 1)
    eventually(lambda: page.locator("#partitions-table td a").count() == 2, "a tree that is open in the other one")
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


def test_a_tree_is_drawn_with_what_is_open(context: BrowserContext, served: DashboardServer, figures: Figures) -> None:
    page = context.new_page()
    page.goto(f"{served.address}trace/00000000000000ff?topology=words")
    page.wait_for_selector("#tree .tuple")
    said = tree(0xFF)
    (open_,) = (
        one for one in said["tuples"] if one["state"] == "open" and one["parents_are"] == "told" and one["behind"]
    )
    line = page.locator(f"[data-tuple='{open_['tuple']}']")
    text = line.inner_text()
    # The word, and not the colour alone.
    assert line.locator(".state").inner_text() == "○ open"
    assert open_["tuple"] in text
    assert open_["preview"] in text
    assert f"edge {open_['edge']}, emitted +" in text
    assert text.endswith("1,234 behind")
    # Below its parent, and among those that are drawn though there are more than are.
    (parent,) = open_["parents"]
    under = page.locator("#tree > li").filter(has=page.locator(f"[data-tuple='{parent}']")).first
    assert under.locator("ul > li .tuple").count() == 20
    assert under.locator("ul > li.more").inner_text() == "… and 10 more, all acked"
    assert under.locator(f"[data-tuple='{open_['tuple']}']").count() == 1
    acked = next(one for one in said["tuples"] if one["tuple"] == parent)
    shown = page.locator(f"[data-tuple='{parent}']").inner_text()
    assert f"by {acked['acks'][0]['writer']}" in shown
    assert shown.startswith("✓ acked")
    told = page.locator("#told-table tbody tr")
    assert told.count() == len(said["log"])
    assert told.first.locator("th").inner_text() == "init"
    assert page.locator("#notices-table tbody th").inner_text() == "timeout"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_tree_is_read_in_light_and_in_dark_on_a_desk_and_on_a_phone(
    browser: Browser, served: DashboardServer, scheme: Literal["light", "dark"], width: int
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 844})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.goto(f"{served.address}trace/00000000000000ff?topology=words")
    page.wait_for_selector("#tree .tuple")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
    assert complaints == []


def test_a_token_opens_the_page_and_does_not_stay_in_the_address(context: BrowserContext, figures: Figures) -> None:
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
            assert "the dashboard wants its token" in other.content()
        finally:
            stranger.close()


def test_the_page_says_what_is_wrong_and_recovers(context: BrowserContext, figures: Figures) -> None:
    server = DashboardServer(figures, ServedAt())
    server.start()
    page = context.new_page()
    page.goto(server.address)
    state(page, "live")
    # What it asks for once, when it is live, has been answered: only the stream can tell of what follows.
    page.wait_for_selector("#failures-table td.code")
    page.wait_for_selector("#dead-table td.code")
    figures.broken = True
    assert state(page, "problem") == "no broker answers at nowhere:9092. Start one"
    # The stream says what is new, as real figures are every second.
    figures.shown = snapshot(AT + 1)
    figures.broken = False
    assert state(page, "live") == "live"
    port = server.port
    server.close()
    assert "does not answer" in state(page, "lost")
    with DashboardServer(figures, ServedAt(port=port)):
        assert state(page, "live") == "live"


def test_problems_are_shown_at_once(context: BrowserContext, served: DashboardServer, figures: Figures) -> None:
    page = context.new_page()
    page.goto(f"{served.address}trace/{GONE:#x}?topology=words")
    assert "Search further back" in state(page, "problem")
    figures.shown = snapshot() | {"workers": [], "components": [component("lines", "spout", processes=0)], "edges": []}
    page.goto(served.address)
    assert state(page, "stale") == "no process of the topology says how it does"
    assert page.locator("#workers-table").inner_text().endswith("No acker worker is at work.")
    # The dashboard has answered, so the page does not wait for its next look at the clock.
    page.add_init_script("window.setInterval = () => 0")
    page.goto(f"{served.address}?topology=nope")
    assert "no topology 'nope'" in state(page, "problem")


def test_components_come_and_go_and_a_circle_is_drawn(
    context: BrowserContext, served: DashboardServer, figures: Figures
) -> None:
    """A topology may be published anew while the page is open, and may lead back as Storm allows."""
    shown = snapshot()
    back = {**shown["edges"][0], "source": "count", "target": "split"}
    figures.shown = shown | {"edges": [*shown["edges"], back]}
    page = context.new_page()
    page.goto(served.address)
    state(page, "live")
    assert page.locator("#drawing a.node").count() == 3
    assert page.locator("#drawing .edges path").count() == 4
    changed = snapshot(AT + 1)
    changed["components"] = [component("lines", "spout"), component("sum", "bolt"), component("split", "bolt")]
    changed["edges"] = changed["edges"][:1]
    figures.shown = changed
    page.wait_for_selector("#component-sum")
    assert page.locator("#components-table tbody th").all_text_contents() == ["lines", "sum", "split"]
    assert page.locator("#drawing a.node").count() == 3
    assert page.locator("#drawing .edges path").count() == 1
