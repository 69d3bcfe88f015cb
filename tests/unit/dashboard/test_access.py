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
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def open_port() -> Iterator[int]:
    """Of a dashboard without a token."""
    with DashboardServer(Figures(), ServedAt(names=["figures.example"])) as served:
        yield served.port


@pytest.fixture(scope="module")
def guarded_port() -> Iterator[int]:
    """Of one with a token."""
    with DashboardServer(Figures(), ServedAt(token=TOKEN)) as served:
        yield served.port


def test_only_reading_is_allowed(open_port: int) -> None:
    for path in ("/", "/api/snapshot", "/static/main.js"):
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            answer = request(open_port, path, method)
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD"), (path, method)
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/static/"):
        assert request(open_port, path).status == 404, path


def test_another_host_name_is_refused(open_port: int, guarded_port: int) -> None:
    """Also with the right token, which a browser may have been given by someone else."""
    for host in ("evil.example", "evil.example:8420", "localhost.evil.example", "", "127.0.0.1.nip.io"):
        for path in ("/", "/api/snapshot", "/api/events", "/static/main.js", f"/?token={TOKEN}"):
            answer = request(guarded_port, path, headers={"Host": host, **BEARER})
            assert answer.status == 421, (host, path)
            assert "set-cookie" not in answer.headers
            assert "dashboard.names" in answer.json["error"]
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8420", "[::1]:8420", "10.1.2.3", "Figures.Example.:80"):
        assert request(open_port, "/api/snapshot", headers={"Host": host}).status == 200, host


def test_without_the_token_nothing_is_shown(guarded_port: int) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Cookie": f"{COOKIE}={TOKEN}"},
        {"Cookie": f"{COOKIE}-1={TOKEN}"},
        {"Cookie": "\x01=;;;"},
    ):
        for path in ("/", "/api/topologies", "/api/snapshot", "/api/events", "/static/main.js", "/nowhere"):
            answer = request(guarded_port, path, headers=headers)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), (headers, path)
            assert b"token" in answer.body
            assert b"words" not in answer.body
    for scheme in ("Bearer", "bearer"):
        answer = request(guarded_port, "/api/snapshot", headers={"Authorization": f"{scheme} {TOKEN}"})
        assert (answer.json["topology"], "set-cookie" in answer.headers) == ("words", False)
    # In an address, a token counts only for the page.
    assert request(guarded_port, f"/api/snapshot?token={TOKEN}").status == 401
    assert request(guarded_port, "/?token=wrong").status == 401


def test_the_token_in_the_address_of_the_page_becomes_a_cookie(guarded_port: int) -> None:
    answer = request(guarded_port, f"/?token={TOKEN}")
    assert answer.status == 200
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert TOKEN not in cookie

    def status(cookies: str, port: int = guarded_port) -> int:
        return request(port, "/api/snapshot", headers={"Cookie": cookies}).status

    assert status(cookie) == 200
    assert status(cookie[:-1]) == 401
    # Cookies do not tell ports apart, so those of every server on this machine come along, well-formed or not.
    for other in ('settings={"a": 1}', "two words=1", "list[0]=a,b", "flag"):
        assert status(f"{other}; {cookie}") == status(f"{cookie}; {other}") == 200, other
    with DashboardServer(Figures(), ServedAt(token=TOKEN)) as another:
        assert str(guarded_port) in cookie
        assert status(cookie, another.port) == 401


def test_other_machines_need_a_token_and_this_one_if_it_is_set() -> None:
    for at in (ServedAt("0.0.0.0"), ServedAt(always_token=True)):
        with DashboardServer(Figures(), at) as served:
            assert request(served.port, "/api/snapshot").status == 401
            address, token = served.address.split("?token=")
            assert address == f"http://127.0.0.1:{served.port}/"
            assert len(token) >= 32
            assert request(served.port, "/api/snapshot", headers={"Authorization": f"Bearer {token}"}).status == 200
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        assert is_loopback(host), host
    for host in ("0.0.0.0", "::", "10.0.0.1"):
        assert not is_loopback(host), host


def test_tokens_are_checked_and_not_shown() -> None:
    for token in ("short", "0123456789 abcdefghij", "0123456789&bcdefghij", "0123456789öbcdefghij"):
        with pytest.raises(DashboardError, match=f"{SHORTEST_TOKEN} characters") as raised:
            DashboardServer(Figures(), ServedAt(token=token))
        assert token not in str(raised.value)
    assert TOKEN not in repr(ServedAt(token=TOKEN)) + repr(Access.of(TOKEN, []))


def test_every_answer_has_the_headers_that_restrict_the_browser(open_port: int) -> None:
    for path in ("/", "/api/snapshot", "/static/main.js", "/nowhere"):
        for headers in ({}, {"Host": "evil.example"}):
            found = request(open_port, path, headers=headers).headers
            policy = dict(part.strip().split(" ", 1) for part in found["content-security-policy"].split(";"))
            assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
            assert set(policy.values()) == {"'none'", "'self'"}
            assert found["x-content-type-options"] == "nosniff"
            assert found["referrer-policy"] == "no-referrer"
            assert found["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in found
