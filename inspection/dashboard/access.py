"""Access control of the dashboard, and the security headers of every answer: an ASGI layer around the pages.

Nothing can be changed through the dashboard, so reading is guarded:

- **Method.** GET and HEAD.
- **Name.** A page of another site can have its own name resolve to this machine and then read our answers as if they
  were its own (DNS rebinding). The browser sends that name in `Host`, so unknown names are refused. Addresses cannot be
  rebound.
- **Token.** As `Authorization: Bearer …`, or once in the address of the page (`/?token=…`), and from then on as a
  cookie, which scripts cannot read and which the browser sends to this site only. Browsers of this machine need it
  too, for it may have several users.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS: Final = ("GET", "HEAD")
_COOKIE: Final = "acker-dashboard"
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


class Guard:
    """Answers for an app what is refused; `names` are of this machine, beside `localhost` and addresses."""

    def __init__(self, app: ASGIApp, token: str, names: Iterable[str], page: str) -> None:
        self._app = app
        self._token = token
        # Not the token itself, which may have characters that cookies cannot, and is valid elsewhere.
        self._cookie = hmac.new(token.encode(), b"acker dashboard cookie", hashlib.sha256).hexdigest()
        self._names = {"localhost", *(name.strip().lower().rstrip(".") for name in names if name.strip())}
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        is_page = request.url.path == self._page
        refused = self._misdirected(request)
        opens = refused is None and is_page and _equal(request.query_params.get("token"), self._token)
        if refused is None and not opens and not self._is_known(request):
            refused = _unauthorized(is_page=is_page)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_SECURITY)
                if opens:
                    # Not a redirect: a browser that came from elsewhere would not send a strict cookie on it.
                    cookie = f"{_cookie_name(request)}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("set-cookie", f"{cookie}; Secure" if scope.get("scheme") == "https" else cookie)
            await send(message)

        await (refused or self._app)(scope, receive, send_guarded)

    def _misdirected(self, request: Request) -> Response | None:
        name = _name_in(request.headers.get("host", ""))
        if name not in self._names and not _is_address(name):
            message = f"{name!r} is no name of the dashboard: use an address, or list the name in dashboard.names"
            return JSONResponse({"error": message}, 421)
        if request.method not in _METHODS:
            message = f"{request.method} is refused: the dashboard only shows, it changes nothing"
            return JSONResponse({"error": message}, 405, {"allow": ", ".join(_METHODS)})
        return None

    def _is_known(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _equal(bearer.strip(), self._token):
            return True
        # Not by http.cookies, which gives up at what another server on this machine has set.
        return _equal(request.cookies.get(_cookie_name(request)), self._cookie)


def _unauthorized(*, is_page: bool) -> Response:
    message = "the dashboard needs its token: open the address that it printed when it was started (/?token=...)"
    challenge = {"www-authenticate": "Bearer"}
    if is_page:
        return PlainTextResponse(f"{message}\n", 401, challenge)
    return JSONResponse({"error": message}, 401, challenge)


def _equal(given: str | None, secret: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode(), secret.encode())


def _cookie_name(request: Request) -> str:
    """With the port, by which cookies are not separated: two dashboards on a machine do not log each other out."""
    server = request.scope.get("server")
    return f"{_COOKIE}-{server[1]}" if server else _COOKIE


def _name_in(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    name = host.partition(":")[0] if host.count(":") == 1 else host
    return name.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
