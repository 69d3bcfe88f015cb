"""A thread that serves the dashboard, and access control."""

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inspection.dashboard.pages import PAGE, Pages
from inspection.dashboard.source import Source
from inspection.errors import DashboardError
from kafka_clients.repeated_lines import get_logger

logger = get_logger(__name__)

_TOKEN_BYTES: Final = 24
_BACKLOG: Final = 128
_GRACE_SECONDS: Final = 3  # for answers that are under way when it ends
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - for the printed address
_TOKEN_ALPHABET: Final = frozenset(map(chr, range(0x21, 0x7F)))
SHORTEST_TOKEN: Final = 16
_METHODS: Final = ("GET", "HEAD")
_SECURITY: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # The address may hold the token.
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class ServedAt:
    host: str = "127.0.0.1"  # the name or address to listen at
    port: int = 0  # 0 takes a free one
    token: str | None = field(default=None, repr=False)  # which readers need; None draws one
    names: Iterable[str] = ()  # of the machine, beside the host, `localhost` and addresses
    certificate: str | None = None  # PEM file with the certificate of the host and its chain; no TLS without it
    key: str | None = None  # PEM file with its key; None if that is in the file of the certificate


class DashboardServer:
    """Serves the dashboard from `start` to `close`, or inside a `with`; closes the source, too.

    It listens from the beginning: browsers that connect before `start` wait.
    """

    def __init__(self, source: Source, at: ServedAt, chosen: str | None = None) -> None:
        self._source = source
        self._at = at
        self._token = _checked(at.token) or secrets.token_urlsafe(_TOKEN_BYTES)
        pages = Pages(source, chosen, lambda: self._server.should_exit)
        config = uvicorn.Config(
            Guard(pages.app(), self._token, [at.host, *at.names]),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ssl_certfile=at.certificate,
            ssl_keyfile=at.key,
        )
        try:
            config.load()
        except OSError as error:
            raise DashboardError(
                f"the TLS certificate {at.certificate} of the dashboard, with key {at.key or 'in it'}, cannot be used: "
                f"{error}. Give files in PEM, the key without a passphrase"
            ) from error
        self._socket = listening_at(at.host, at.port)
        self._server = uvicorn.Server(config)
        # Not joined: a signal that interrupts a join makes Python 3.11 take the thread for ended.
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._serve, name="dashboard").start()

    def close(self) -> None:
        """To be called once, after `start`."""
        self._server.should_exit = True
        self._ended.wait()
        self._socket.close()
        self._source.close()

    def wait(self) -> None:
        self._ended.wait()
        raise DashboardError("the dashboard has stopped; its log has the error. Start it again")

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def address(self) -> str:
        host = _ANYWHERE.get(self._at.host, self._at.host)
        shown = f"[{host}]" if ":" in host else host
        scheme = "http" if self._at.certificate is None else "https"
        return f"{scheme}://{shown}:{self.port}{PAGE}?token={self._token}"

    @property
    def listens_everywhere(self) -> bool:
        """Whether it listens at all addresses of this machine, where `address` has only the local one."""
        return self._at.host in _ANYWHERE

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        try:
            asyncio.run(self._server.serve([self._socket]))
        except Exception:
            logger.exception("the dashboard has stopped; the rest of the process continues")
        finally:
            self._ended.set()


class Guard:
    """Access control, and the security headers of every answer; `names` as in `ServedAt`.

    Nothing can be changed through the dashboard, so reading is guarded:

    - **Method.** GET and HEAD.
    - **Name.** A page of another site can have its own name resolve to this machine and then read our answers as if
      they were its own (DNS rebinding). The browser sends that name in `Host`, so unknown names are refused. Addresses
      cannot be rebound.
    - **Token.** As `Authorization: Bearer …`, or once in the address of the page (`/?token=…`), and from then on as a
      cookie, which scripts cannot read and which the browser sends to this site only. Browsers of this machine need it
      too, for it may have several users.
    """

    def __init__(self, app: ASGIApp, token: str, names: Iterable[str]) -> None:
        self._app = app
        self._token = token
        # Not the token itself, which may have characters that cookies cannot, and is valid elsewhere.
        self._cookie = hmac.new(token.encode(), b"acker dashboard cookie", hashlib.sha256).hexdigest()
        self._names = {"localhost", *(name.strip().lower().rstrip(".") for name in names if name.strip())}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        opens = scope["path"] == PAGE and _equal(request.query_params.get("token"), self._token)
        refused = self._refused(request, opens=opens)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_SECURITY)
                if opens and refused is None:
                    # Not a redirect: a browser that came from elsewhere would not send a strict cookie on it.
                    cookie = f"{_cookie_name(request)}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("set-cookie", f"{cookie}; Secure" if scope.get("scheme") == "https" else cookie)
            await send(message)

        await (refused or self._app)(scope, receive, send_guarded)

    def _refused(self, request: Request, *, opens: bool) -> Response | None:
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            message = f"{host!r} is no name of the dashboard: use an address, or list the name in dashboard.names"
            return JSONResponse({"error": message}, 421)
        if request.method not in _METHODS:
            message = f"{request.method} is refused: the dashboard is read-only"
            return JSONResponse({"error": message}, 405, {"allow": ", ".join(_METHODS)})
        if opens or self._is_known(request):
            return None
        message = "the dashboard needs its token: open the address that it printed when it was started (/?token=...)"
        challenge = {"www-authenticate": "Bearer"}
        if request.scope["path"] == PAGE:
            return PlainTextResponse(f"{message}\n", 401, challenge)
        return JSONResponse({"error": message}, 401, challenge)

    def _is_ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            return name in self._names or ipaddress.ip_address(name) is not None
        except ValueError:
            return False

    def _is_known(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _equal(bearer.strip(), self._token):
            return True
        # Not by http.cookies, which reads none if another server on this machine has set an invalid one.
        return _equal(request.cookies.get(_cookie_name(request)), self._cookie)


def _equal(given: str | None, secret: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode(), secret.encode())


def _cookie_name(request: Request) -> str:
    """With the port, by which cookies are not separated: two dashboards on a machine do not log each other out."""
    return f"acker-dashboard-{request.scope['server'][1]}"


def _checked(token: str | None) -> str | None:
    if not token:
        return None
    if len(token) < SHORTEST_TOKEN or not set(token) <= _TOKEN_ALPHABET - set("&#+%"):
        raise DashboardError(
            f"the token of the dashboard cannot be used: it must have {SHORTEST_TOKEN} characters or more, no blanks "
            "and none of & # + %; leave it out to have one made"
        )
    return token


def listening_at(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]
        raise DashboardError(
            f"the dashboard cannot be served at {host}, port {port}: {why}. Set another port with --set "
            "dashboard.port=0 (0 takes a free one), acker dashboard --port, ACKER_DASHBOARD__PORT, or port under "
            "[dashboard] in acker.toml, and the address with dashboard.host"
        ) from error
