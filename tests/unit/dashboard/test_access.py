"""Access to the dashboard over HTTP, with the requests of a browser and of an attacker."""

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from inspection.dashboard import DashboardServer
from inspection.errors import ServingError
from inspection.http_server import SHORTEST_TOKEN, ServedAt
from tests.certificates import Authority
from tests.unit.dashboard.figures import Figures
from tests.unit.dashboard.http import BEARER, TOKEN, request

COOKIE = "acker-dashboard"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with DashboardServer(Figures(), ServedAt(token=TOKEN, names=["figures.example"])) as served:
        yield served.port


def test_only_reading_is_allowed(port: int) -> None:
    for path in ("/", "/api/snapshot", "/static/main.js"):
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            answer = request(port, path, method)
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD"), (path, method)
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/static/"):
        assert request(port, path).status == 404, path


def test_another_host_name_is_rejected(port: int) -> None:
    """Also with the right token, which another page may have sent."""
    for host in ("evil.example", "evil.example:8420", "localhost.evil.example", "", "127.0.0.1.nip.io"):
        for path in ("/", "/api/snapshot", "/api/events", "/static/main.js", f"/?token={TOKEN}"):
            answer = request(port, path, headers={"Host": host, **BEARER})
            assert answer.status == 421, (host, path)
            assert "set-cookie" not in answer.headers
            assert "dashboard.names" in answer.json["error"]
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8420", "[::1]:8420", "10.1.2.3", "Figures.Example.:80"):
        assert request(port, "/api/snapshot", headers={"Host": host, **BEARER}).status == 200, host


def test_requests_without_the_token_are_rejected(port: int) -> None:
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
            answer = request(port, path, headers=headers)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), (headers, path)
            assert b"words" not in answer.body
    for scheme in ("Bearer", "bearer"):
        answer = request(port, "/api/snapshot", headers={"Authorization": f"{scheme} {TOKEN}"})
        assert (answer.json["topology"], "set-cookie" in answer.headers) == ("words", False)
    # A browser shows the reason; only programs get JSON.
    shown = request(port, "/trace/00000000000000ff?topology=words", headers={})
    assert shown.headers["content-type"].startswith("text/html")
    assert b"<p>The dashboard needs its token: open the address that it printed" in shown.body
    # In an address, a token counts only for the page.
    for path in (f"/api/snapshot?token={TOKEN}", "/?token=wrong"):
        assert request(port, path, headers={}).status == 401


def test_the_token_in_the_address_of_the_page_becomes_a_cookie(port: int) -> None:
    answer = request(port, f"/?token={TOKEN}", headers={})
    assert answer.status == 200
    assert "Secure" not in answer.headers["set-cookie"]
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert TOKEN not in cookie

    def status(cookies: str, at: int = port) -> int:
        return request(at, "/api/snapshot", headers={"Cookie": cookies}).status

    assert status(cookie) == 200
    assert status(cookie[:-1]) == 401
    # Cookies do not depend on the port, so those of every server on this machine are sent too, well-formed or not.
    for other in ('settings={"a": 1}', "two words=1", "list[0]=a,b", "flag"):
        assert status(f"{other}; {cookie}") == status(f"{cookie}; {other}") == 200, other
    with DashboardServer(Figures(), ServedAt(token=TOKEN)) as another:
        assert str(port) in cookie
        assert status(cookie, another.port) == 401


def test_a_token_is_generated_by_default() -> None:
    """Also on the loopback address: other users may share the machine."""
    for at in (ServedAt(), ServedAt("0.0.0.0")):
        with DashboardServer(Figures(), at) as served:
            address, token = served.address.split("?token=")
            assert address == f"http://127.0.0.1:{served.port}/"
            assert len(token) >= 32
            for headers, status in (({}, 401), ({"Authorization": f"Bearer {token}"}, 200)):
                assert request(served.port, "/api/snapshot", headers=headers).status == status


def test_with_a_certificate_the_dashboard_serves_https(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.issue("dashboard")
    at = ServedAt(token=TOKEN, certificate=str(identity.certificate), key=str(identity.key))
    with DashboardServer(Figures(), at) as served:
        trusting = ssl.create_default_context(cafile=str(authority.path))
        with urlopen(served.address, context=trusting) as answer:
            assert answer.headers["set-cookie"].endswith("; Secure")
    for broken in (replace(at, key=None), replace(at, certificate=str(tmp_path / "none.pem"))):
        with pytest.raises(ServingError, match=r"certificate .*cannot be used: .*Give files in PEM"):
            DashboardServer(Figures(), broken).start()


def test_tokens_are_checked_and_not_shown() -> None:
    for token in ("short", "0123456789 abcdefghij", "0123456789&bcdefghij", "0123456789öbcdefghij"):
        with pytest.raises(ServingError, match=f"{SHORTEST_TOKEN} characters") as raised:
            DashboardServer(Figures(), ServedAt(token=token))
        assert token not in str(raised.value)
    assert TOKEN not in repr(ServedAt(token=TOKEN))


def test_every_answer_has_the_headers_that_restrict_the_browser(port: int) -> None:
    expected = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}
    for path in ("/", "/api/snapshot", "/static/main.js", "/nowhere"):
        for headers in ({}, {"Host": "evil.example"}):
            found = request(port, path, headers=headers).headers
            policy = dict(part.strip().split(" ", 1) for part in found["content-security-policy"].split(";"))
            assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
            assert set(policy.values()) == {"'none'", "'self'"}
            assert {name: found[name] for name in expected} == expected
            assert "access-control-allow-origin" not in found
