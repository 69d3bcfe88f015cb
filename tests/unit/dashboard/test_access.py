"""Who may look at the dashboard: over HTTP, as a browser or an attacker would ask."""

from collections.abc import Iterator

import pytest

from inspection.dashboard import DashboardError, DashboardServer, ServedAt
from inspection.dashboard.access import Access, is_loopback
from inspection.dashboard.server import SHORTEST_TOKEN
from tests.unit.dashboard.figures import Figures
from tests.unit.dashboard.http import request

TOKEN = "0123456789abcdefghij"
COOKIE = "acker-dashboard"


@pytest.fixture
def open_port() -> Iterator[int]:
    """Of a dashboard without a token."""
    with DashboardServer(Figures(), ServedAt(names=["figures.example"])) as served:
        yield served.port


@pytest.fixture
def guarded_port() -> Iterator[int]:
    """Of one with a token."""
    with DashboardServer(Figures(), ServedAt(token=TOKEN)) as served:
        yield served.port


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/api/snapshot", "/static/main.js"])
def test_nothing_but_looking(open_port: int, method: str, path: str) -> None:
    answer = request(open_port, path, method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8420", "localhost.evil.example", "", "127.0.0.1.nip.io"]
)
@pytest.mark.parametrize("path", ["/", "/api/snapshot", "/api/events", "/static/main.js", f"/?token={TOKEN}"])
def test_a_name_that_is_not_ours_is_refused(guarded_port: int, host: str, path: str) -> None:
    """Also with the right token: a browser may have been told it by someone else."""
    answer = request(guarded_port, path, headers={"Host": host, "Authorization": f"Bearer {TOKEN}"})
    assert answer.status == 421
    assert "set-cookie" not in answer.headers
    assert "dashboard.names" in answer.json["error"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8420", "[::1]:8420", "10.1.2.3", "Figures.Example.:80"]
)
def test_names_that_are_ours(open_port: int, host: str) -> None:
    assert request(open_port, "/api/snapshot", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/api/topologies", "/api/snapshot", "/api/events", "/static/main.js", "/nowhere"]
)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Cookie": f"{COOKIE}={TOKEN}"},
        {"Cookie": f"{COOKIE}-1={TOKEN}"},
        {"Cookie": "\x01=;;;"},
    ],
)
def test_without_the_token_nothing_is_shown(guarded_port: int, path: str, headers: dict[str, str]) -> None:
    answer = request(guarded_port, path, headers=headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert b"token" in answer.body
    assert b"words" not in answer.body


def test_the_token_as_a_bearer(guarded_port: int) -> None:
    for scheme in ("Bearer", "bearer"):
        answer = request(guarded_port, "/api/snapshot", headers={"Authorization": f"{scheme} {TOKEN}"})
        assert answer.json["topology"] == "words"
        assert "set-cookie" not in answer.headers


def test_the_token_in_the_address_of_the_page_becomes_a_cookie(guarded_port: int) -> None:
    answer = request(guarded_port, f"/?token={TOKEN}")
    assert answer.status == 200
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert TOKEN not in cookie
    assert request(guarded_port, "/api/snapshot", headers={"Cookie": cookie}).status == 200
    assert request(guarded_port, "/api/snapshot", headers={"Cookie": cookie[:-1]}).status == 401


@pytest.mark.parametrize("other", ['settings={"a": 1}', "two words=1", "list[0]=a,b", "flag"])
def test_cookies_of_others_do_not_hide_it(guarded_port: int, other: str) -> None:
    """Cookies do not tell ports apart, so those of every server on this machine come along, well-formed or not."""
    cookie = request(guarded_port, f"/?token={TOKEN}").headers["set-cookie"].split("; ")[0]
    for cookies in (f"{other}; {cookie}", f"{cookie}; {other}"):
        assert request(guarded_port, "/api/snapshot", headers={"Cookie": cookies}).status == 200


def test_a_token_in_another_address_counts_for_nothing(guarded_port: int) -> None:
    assert request(guarded_port, f"/api/snapshot?token={TOKEN}").status == 401
    assert request(guarded_port, "/?token=wrong").status == 401


def test_a_cookie_is_of_one_dashboard_only(guarded_port: int) -> None:
    """Cookies do not tell ports apart."""
    with DashboardServer(Figures(), ServedAt(token=TOKEN)) as other:
        cookie = request(guarded_port, f"/?token={TOKEN}").headers["set-cookie"].split("; ")[0]
        assert str(guarded_port) in cookie
        assert request(other.port, "/api/snapshot", headers={"Cookie": cookie}).status == 401


def test_others_than_this_machine_need_a_token() -> None:
    with DashboardServer(Figures(), ServedAt("0.0.0.0")) as served:
        assert request(served.port, "/api/snapshot").status == 401
        address, token = served.address.split("?token=")
        assert address == f"http://127.0.0.1:{served.port}/"
        assert len(token) >= 32
        assert request(served.port, "/api/snapshot", headers={"Authorization": f"Bearer {token}"}).status == 200
    with DashboardServer(Figures(), ServedAt("0.0.0.0")) as again:
        assert not again.address.endswith(token)


def test_this_machine_needs_one_if_it_is_said() -> None:
    with DashboardServer(Figures(), ServedAt(always_token=True)) as served:
        assert request(served.port, "/api/snapshot").status == 401
        assert "?token=" in served.address


@pytest.mark.parametrize("token", ["short", "0123456789 abcdefghij", "0123456789&bcdefghij", "0123456789öbcdefghij"])
def test_a_token_that_cannot_be_used(token: str) -> None:
    with pytest.raises(DashboardError, match=f"{SHORTEST_TOKEN} characters") as raised:
        DashboardServer(Figures(), ServedAt(token=token))
    assert token not in str(raised.value)


def test_the_token_is_not_shown_by_accident() -> None:
    assert TOKEN not in repr(ServedAt(token=TOKEN))
    assert TOKEN not in repr(Access.of(TOKEN, []))


@pytest.mark.parametrize("path", ["/", "/api/snapshot", "/static/main.js", "/nowhere"])
def test_every_answer_tells_the_browser_to_be_careful(open_port: int, path: str) -> None:
    for headers in ({}, {"Host": "evil.example"}):
        answer = request(open_port, path, headers=headers)
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert set(policy.values()) == {"'none'", "'self'"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/static/"]
)
def test_only_the_files_of_the_page(open_port: int, path: str) -> None:
    assert request(open_port, path).status == 404


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
    ],
)
def test_what_only_this_machine_reaches(host: str, here: bool) -> None:
    assert is_loopback(host) is here
