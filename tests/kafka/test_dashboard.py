"""The dashboard of a running topology, in a browser."""

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium
from tests.kafka.dashboard_page import CONTRAST, OVERHANGS, UNKNOWN
from tests.kafka.dashboard_topology import LOST, RETURNS
from tests.unit.cli.running import RunningAcker, json_of, run_acker, running_acker
from tests.unit.dashboard.http import TOKEN, request
from tests.waiting import eventually

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("dashboard")]

PATIENCE = 180.0
PATIENCE_MS = PATIENCE * 1000
WIDE = {"width": 1400, "height": 900}
PHONE = {"width": 400, "height": 850}


@dataclass
class Shop:
    """The running topology with its dashboard."""

    command: RunningAcker
    address: str

    @property
    def port(self) -> int:
        return int(urlsplit(self.address).port or 0)

    def json(self, path: str) -> Any:
        return request(self.port, path).json

    def verdict(self, root: str, directory: Path) -> str:
        """The output of `acker trace ROOT --json`."""
        (servers,) = re.findall(r"running shop on (\S+);", self.command.output)
        arguments = ("trace", root, "--json", "--bootstrap-servers", servers)
        (tree,) = json_of(run_acker(*arguments, cwd=directory, seconds=PATIENCE))["trees"]
        return str(tree["verdict"])


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    directory = tmp_path_factory.mktemp("shop")
    (directory / "returns").write_text(f"a cup\n{LOST}\na plate\n")
    feed = ("--feed", f"{RETURNS}=returns")
    run = ("run", "tests.kafka.dashboard_topology:topology", "--local", "--dashboard", *feed)
    settings = {"ACKER_DASHBOARD__PORT": "0", "ACKER_DASHBOARD__TOKEN": TOKEN}
    with running_acker(*run, cwd=directory, environment=settings) as command:
        command.wait_for("dashboard at ")
        (address,) = re.findall(r"dashboard at (\S+)", command.output)
        shop = Shop(command, address)
        # So that there is all to be seen.
        eventually(lambda: has_happened(shop), "failures, time-outs, a dead letter and findings", PATIENCE)
        yield shop
        assert command.end(signal.SIGINT) == 130
        assert "the dashboard has stopped" not in command.output


def has_happened(shop: Shop) -> bool:
    answer = request(shop.port, "/api/snapshot")
    if answer.status != 200:
        return False
    (orders,) = [one for one in answer.json["components"] if one["name"] == "orders"]
    (returns,) = [one for one in answer.json["components"] if one["name"] == "returns"]
    findings = shop.json("/api/findings")["findings"]
    return (
        orders["failed"].keys() >= {"failed", "timeout"}
        and returns["failed"].keys() >= {"timeout"}
        and (answer.json["dead_letters"] or 0) > 0
        and "review" in {finding["component"] for finding in findings}
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def requested() -> list[str]:
    """The addresses that the page requested."""
    return []


@pytest.fixture
def browser_errors() -> list[str]:
    """Errors in the browser: of scripts, of the policy, and of missing resources."""
    return []


@pytest.fixture
def page(browser: Browser, shop: Shop, requested: list[str], browser_errors: list[str]) -> Iterator[Page]:
    page = opened(browser, shop, requested, browser_errors)
    yield page
    page.context.close()
    assert browser_errors == []
    here = urlsplit(shop.address).netloc
    assert requested
    assert {urlsplit(address).netloc for address in requested} == {here}


def opened(browser: Browser, shop: Shop, requested: list[str], browser_errors: list[str], **settings: Any) -> Page:
    context = browser.new_context(**{"viewport": WIDE, "locale": "en-GB", "timezone_id": "UTC", **settings})
    context.set_default_timeout(PATIENCE_MS)
    context.on("request", lambda request: requested.append(request.url))
    page = context.new_page()
    page.on("pageerror", lambda error: browser_errors.append(str(error)))
    page.on("console", lambda line: browser_errors.append(line.text) if line.type in {"error", "warning"} else None)
    page.goto(shop.address)
    page.wait_for_selector("#status[data-state=live]")
    page.wait_for_selector("#failures-table td.text")
    page.wait_for_selector("#dead-table td.text")
    return page


LOOKS = (
    ("light", WIDE, "dashboard.png"),
    ("dark", WIDE, None),
    ("dark", PHONE, "dashboard-phone.png"),
)
ROWS = """() => [...document.getElementById("components-table").tBodies[0].rows].map((row) =>
  Object.fromEntries([...row.cells].map((cell) => [cell.dataset.figure, cell.textContent])))"""
AT = "() => Number(document.body.dataset.at)"
"""The time of the figures on the page."""
PICTURED = 24
"""Points of the history that are on a picture at least."""


def until(page: Page, condition: str) -> None:
    """Waits for a condition of the page; Playwright's own way to wait is forbidden by the page's policy."""
    eventually(lambda: page.evaluate(condition), condition, PATIENCE)


def test_the_page_follows_the_topology(page: Page, shop: Shop) -> None:
    until(page, "document.querySelector('#throughput .curve.acked_per_second')?.getAttribute('d').includes('L')")
    assert page.locator("#latency .curve.complete_p99").get_attribute("d")
    names = page.locator("#drawing a.node .name").all_text_contents()
    assert set(names) == {one["name"] for one in shop.json("/api/snapshot")["components"]}

    def of_one_moment() -> tuple[Any, Any] | None:
        snapshot, rows = shop.json("/api/snapshot"), page.evaluate(ROWS)
        return (snapshot["components"], rows) if page.evaluate(AT) == snapshot["at"] else None

    components, rows = eventually(of_one_moment, "the page and the API at one moment", PATIENCE) or ([], [])
    for component, row in zip(components, rows, strict=True):
        counts = {figure: component[figure] for figure in ("processes", "pending", "lag", "errors")}
        shown = {figure: UNKNOWN if count is None else f"{count:,}" for figure, count in counts.items()}
        assert (row["name"], row["kind"]) == (component["name"], component["kind"])
        assert {figure: row[figure] for figure in counts} == shown

    letter = shop.json("/api/dead-letters")["dead_letters"][-1]
    assert "has no address" in letter["detail"]
    assert letter["by"] == "ship/0"
    row = page.locator("#dead-table tbody tr").last
    origin = f"shop.tuples.ship/{letter['of_partition']}/{letter['of_offset']}"
    assert row.locator("[data-figure=position]").inner_text() == origin
    assert row.locator("[data-figure=detail]").inner_text() == letter["detail"]

    # The page follows; only its state is read out, and only when it changes; what has the focus keeps it.
    page.evaluate(
        "new MutationObserver(() => (window.spoken = true)).observe(document.getElementById('status'),"
        " {childList: true, characterData: true, subtree: true, attributes: true})"
    )
    page.locator("#components-table a").first.focus()
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "orders"
    first = page.evaluate(AT)
    eventually(lambda: page.evaluate(AT) > first, "another snapshot", PATIENCE)
    assert page.evaluate("window.spoken") is None
    assert page.evaluate("document.activeElement.textContent") == focused


def test_the_dashboard_shows_each_problem_at_its_component(page: Page, shop: Shop) -> None:
    """A busy bolt and its hot key, an input without an ack, the bolt that failed an order, and the lost return."""
    until(page, "document.querySelector('#component-review [data-figure=findings]').classList.contains('warns')")

    def loaded() -> dict[str, Any] | None:
        (post,) = [one for one in shop.json("/api/snapshot")["components"] if one["name"] == "post"]
        is_busy = (post["busy"] or 0) > 0.6 and (post["skew"] or 0) > 2
        return dict(post) if is_busy else None

    post = eventually(loaded, "a busy bolt with a hot key", PATIENCE)
    assert post is not None
    # The tasks of a process share its thread.
    assert sum(load["busy"] for load in post["loads"]) == pytest.approx(post["busy"], abs=0.01)

    def failures() -> list[dict[str, Any]]:
        return list(shop.json("/api/failures")["failures"])

    def returned() -> set[str | None]:
        return {one["source"] for one in failures() if one["spout"] == "returns"}

    assert eventually(returned, "a return that has failed lately", PATIENCE) == {f"{RETURNS}[0] offset 1"}
    assert {one["by"] for one in failures() if one["reason"] == "failed"} <= {"bill/0", "bill/1"}
    assert {one["by"] for one in failures() if one["reason"] == "timeout"} == {None}
    assert {one["source"] for one in failures() if one["spout"] == "orders"} == {None}
    page.goto(f"{page.url}#component-post")
    page.wait_for_selector("#component .curve.busy", state="attached")
    assert page.locator("#loads-table tbody tr").count() == 4


def test_a_failure_links_to_its_trace(page: Page, shop: Shop, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The verdict on the page is that of the command, once the bolts have committed their offsets."""
    page.get_by_role("button", name="failed").first.click()
    links = page.locator("#failures-table tbody th a")
    root = links.first.inner_text()
    # Another failure may have come since, above it.
    links.filter(has_text=root).click()
    page.wait_for_selector("#tree .tuple")

    def same() -> str | None:
        page.reload()
        page.wait_for_selector("#tree .tuple")
        verdict = page.locator("#verdict").inner_text()
        return verdict if verdict == shop.verdict(root, tmp_path) else None

    verdict = eventually(same, "the same verdict on the page and of acker trace", PATIENCE)
    assert verdict is not None
    assert re.match(r"failed, by bill/\d \(.*the printer is out of paper\): ", verdict)
    assert page.locator("#tree .tuple[data-state=failed]").count() == 1
    directory = request.config.getoption("--screenshots")
    if directory is not None:
        page.screenshot(path=Path(directory) / "dashboard-trace.png", full_page=True)


def test_the_page_is_readable_in_both_themes_and_sizes(
    browser: Browser, shop: Shop, requested: list[str], browser_errors: list[str], request: pytest.FixtureRequest
) -> None:
    directory = request.config.getoption("--screenshots")
    for scheme, size, picture in LOOKS:
        page = opened(browser, shop, requested, browser_errors, color_scheme=scheme, viewport=size)
        page.wait_for_selector("#throughput .curve")
        grounds = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (sum(grounds[:3]) < 3 * 64) if scheme == "dark" else (sum(grounds[:3]) > 3 * 192)
        assert page.evaluate(CONTRAST) == []
        # The most that is to be seen.
        page.goto(urljoin(shop.address, "/#component-review"))
        page.wait_for_selector("#component-findings li")
        assert page.evaluate(OVERHANGS) == [], (scheme, size)
        if directory is not None and picture is not None:
            # The plot needs some points.
            eventually(lambda: len(shop.json("/api/history")["points"]) >= PICTURED, "two minutes of history", PATIENCE)
            page.goto(urljoin(shop.address, "/#component-post"))
            page.wait_for_selector("#component-busy-plot .curve", state="attached")
            # Elements that are fixed to the top of the screen must not hide those below.
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=Path(directory) / picture, full_page=True)
        page.context.close()
    assert browser_errors == []
